#!/usr/bin/env escript
%% Twenty rounds of messages in Erlang: in each, a process asks eight others, and each computes for some microseconds and
%% answers. The threads that run them are Erlang's schedulers, which look for work for a while before they sleep.
%%
%% The protocol with the benchmark is that of `victim.py`.
-mode(compile).
-define(ROUNDS, 20).
-define(PROCESSES, 8).
-define(NUMBERS, 2000).
-define(WARM_UP, 3).
-define(FLUSH_NS, 100000000).

main(Arguments) ->
    Options = maps:from_list([list_to_tuple(string:split(Argument, "=")) || Argument <- Arguments]),
    Threads = list_to_integer(maps:get("--threads", Options, "2")),
    erlang:system_flag(schedulers_online, min(Threads, erlang:system_info(schedulers))),
    Processes = [spawn_link(fun answer/0) || _ <- lists:seq(1, ?PROCESSES)],
    [operate(Processes) || _ <- lists:seq(1, ?WARM_UP)],
    say("ready\n"),
    io:get_line(""),
    Cpu = cpu_ns(),
    Begin = now_ns(),
    say(io_lib:format("begin ~b~n", [Begin])),
    Operations = list_to_integer(maps:get("--operations", Options, "1")),
    {Seconds, _} = string:to_float(maps:get("--seconds", Options, "0") ++ ".0"),
    measure(Processes, Operations, Begin + round(Seconds * 1.0e9), Begin, []),
    say(io_lib:format("done ~b ~b~n", [now_ns(), cpu_ns() - Cpu])),
    spawn_link(fun() -> io:get_line(""), halt(0) end),
    go_on(Processes).

%% Measures until there are enough operations, and the time is over.
measure(_, Left, Least, Now, Lines) when Left =< 0, Now >= Least ->
    say(lists:reverse(Lines));
measure(Processes, Left, Least, Flushed, Lines) ->
    Before = now_ns(),
    Sum = operate(Processes),
    End = now_ns(),
    Line = io_lib:format("op ~b ~b ~8.16.0b~n", [End, End - Before, Sum]),
    case End - Flushed > ?FLUSH_NS of
        true ->
            say(lists:reverse(Lines, [Line])),
            measure(Processes, Left - 1, Least, End, []);
        false ->
            measure(Processes, Left - 1, Least, Flushed, [Line | Lines])
    end.

go_on(Processes) ->
    operate(Processes),
    go_on(Processes).

%% All rounds; the sum of all answers.
operate(Processes) ->
    Sum = lists:sum([ask(Processes, Round) || Round <- lists:seq(1, ?ROUNDS)]),
    Sum = ?PROCESSES * lists:sum([?NUMBERS * (?NUMBERS - 1) div 2 + Round || Round <- lists:seq(1, ?ROUNDS)]).

ask(Processes, Round) ->
    [Process ! {self(), Round} || Process <- Processes],
    lists:sum([receive {Process, Found} -> Found end || Process <- Processes]).

answer() ->
    receive {Asker, Round} -> Asker ! {self(), count(?NUMBERS, Round)} end,
    answer().

count(0, Sum) -> Sum;
count(Number, Sum) -> count(Number - 1, Sum + Number - 1).

say(Text) -> io:put_chars(Text).

%% The clock that the benchmark reads.
now_ns() -> os:perf_counter(nanosecond).

%% The CPU time of all threads.
cpu_ns() -> element(1, erlang:statistics(runtime)) * 1000000.
