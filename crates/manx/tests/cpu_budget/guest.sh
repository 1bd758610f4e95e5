#!/bin/sh
# The first process of the guest that `cargo xtask guest` boots: a machine with 8 CPUs and cgroup v2 alone.
#
# Each case puts a process into a group, shows what the process sees of its groups, and runs the probe there. What it prints goes to
# the second serial line:
#
#     case NAME           what limits the process
#     expect CPUS         its budget
#     affinity LIST       the process' own
#     process NUMBER
#     file PATH           a file that the process sees, line by line behind `| `
#     found CPUS          what the probe says, then its counts, floor and ceiling, and its reasons
set -u
export PATH=/bin

if [ "${1:-}" = look ]; then
    # In the process that is measured: it becomes the probe.
    echo "affinity $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    echo "process $$"
    groups=$(find /sys/fs/cgroup -name cpu.max -o -name cpu.max.burst -o -name cpu.weight -o -name cpu.idle \
        -o -name cpuset.cpus.effective -o -name cgroup.procs | sort)
    # What is beside the process' groups is of interest only where these have to be searched for.
    grep -q '^0::/p' /proc/self/cgroup && groups=$(echo "$groups" | grep -v "^/sys/fs/cgroup/g/")
    for file in /proc/self/cgroup /proc/self/mountinfo /sys/devices/system/cpu/online $groups; do
        echo "file $file"
        # The root's list has all processes of the machine.
        case $file in
        /sys/fs/cgroup/cgroup.procs) grep -x "$$" "$file" | sed 's/^/| /' ;;
        *) sed 's/^/| /' "$file" ;;
        esac
    done
    exec /bin/budget --plain
fi

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec >/dev/ttyS1
stty -opost <&1
cd /

G=/sys/fs/cgroup
echo '+cpu +cpuset' >$G/cgroup.subtree_control
mkdir -p $G/p/c $G/g/p/c
for group in p g g/p; do
    echo '+cpu +cpuset' >$G/$group/cgroup.subtree_control
done

# busybox has an `unshare` of its own, which knows no groups: the other one is called by its path.

# quotas PARENT CHILD CPUS: of /p and of /p/c, in a period of 100 ms.
quotas() {
    echo "$1 100000" >$G/p/cpu.max
    echo "$2 100000" >$G/p/c/cpu.max
    echo "$3" >$G/p/c/cpuset.cpus
}

# measure NAME CPUS GROUP COMMAND...
measure() {
    echo "case $1"
    echo "expect $2"
    group=$3
    shift 3
    (
        echo 0 >$G$group/cgroup.procs
        exec "$@"
    )
}

look="sh /init look"

echo "kernel $(uname -r)"
quotas max max ''
measure none 8 /p/c $look
for quota in 50000=0.5 100000=1 150000=1.5 250000=2.5 399000=3.99; do
    quotas max ${quota%=*} ''
    measure ${quota#*=} ${quota#*=} /p/c $look
done
quotas max max ''
measure 'affinity 0-2' 3 /p/c taskset -c 0-2 $look
quotas 200000 max ''
measure 'parent=2, child=max' 2 /p/c $look
quotas max 250000 0-3
measure 'cpuset 0-3 + 2.5' 2.5 /p/c $look
quotas max max 0-3
measure 'cpuset 0-3' 4 /p/c $look
quotas 300000 250000 ''
measure 'affinity 0-1, parent=3, child=2.5' 2 /p/c taskset -c 0-1 $look
echo '150000 100000' >$G/g/cpu.max
echo '300000 100000' >$G/g/p/cpu.max
measure 'two levels up: 1.5, parent=3, child=max' 1.5 /g/p/c $look
echo '50000 20000' >$G/g/p/c/cpu.max
echo 'max 100000' >$G/g/cpu.max
measure 'a period of 20 ms: 2.5, parent=3' 2.5 /g/p/c $look
quotas max 150000 ''
echo 50000 >$G/p/c/cpu.max.burst
measure 'bursts, 1.5' 1.5 /p/c $look
echo 0 >$G/p/c/cpu.max.burst
quotas max max ''
echo 50 >$G/p/c/cpu.weight
measure 'a weight and no quota' 8 /p/c $look
echo 100 >$G/p/c/cpu.weight
echo 1 >$G/p/c/cpu.idle
measure 'an idle group' 8 /p/c $look
echo 0 >$G/p/c/cpu.idle
quotas 200000 max ''
measure 'namespace, mounted outside, parent=2' 2 /p/c /bin/unshare -C $look
quotas 200000 150000 ''
measure 'namespace, mounted outside, 1.5' 1.5 /p/c /bin/unshare -C $look
measure 'namespace, mounted inside, 1.5' 1.5 /p/c \
    /bin/unshare -C -m sh -c "umount $G && mount -t cgroup2 cgroup2 $G && exec $look"
measure 'the own group bound, 1.5' 1.5 /p/c \
    /bin/unshare -m sh -c "mount -o bind $G/p/c /mnt && umount $G && mount -o move /mnt $G && exec $look"
measure 'nothing mounted' 8 /p/c /bin/unshare -m sh -c "umount $G && exec $look"
measure 'the root group' 8 / $look
quotas max max ''
echo 0 >/sys/devices/system/cpu/cpu7/online
measure '7 CPUs online' 7 /p/c $look
echo 1 >/sys/devices/system/cpu/cpu7/online

# A process that is watched: its quota changes, then its parent's, then it is moved.
quotas max 150000 ''
echo '300000 100000' >$G/g/cpu.max
echo '400000 100000' >$G/g/p/cpu.max
echo 'max 100000' >$G/g/p/c/cpu.max
echo 'case watched: 1.5, then 2.5, then parent=0.5, then moved below 3'
echo 'expect 1.5 2.5 0.5 3'
(
    echo 0 >$G/p/c/cgroup.procs
    exec /bin/budget --follow 3 >/tmp/followed
) &
watched=$!
# await LINES: until the watch has seen this number of budgets, or a minute has passed.
await() {
    for _ in $(seq 600); do
        [ "$(wc -l </tmp/followed)" -ge "$1" ] && return
        sleep 0.1
    done
}
await 1
quotas max 250000 ''
await 2
quotas 50000 250000 ''
await 3
echo $watched >$G/g/p/c/cgroup.procs
await 4
echo "found $(tr '\n' ' ' </tmp/followed | sed 's/ $//')"
echo 'end'
exec >/dev/null
sync
poweroff -f
