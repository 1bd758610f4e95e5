//! `MANX_CORES` and the program's own word, each in a process of its own: both hold for a whole
//! process.

use manx::cpu::{Class, Classes, Source, VARIABLE, class_of_this_cpu, set_classes};
use std::process::Command;

/// Names what the child does.
const CHILD: &str = "CPU_TOLD_CHILD";

/// Runs the test of this name again, in a process with this variable, as a child that does `what`.
fn child(test: &str, what: &str, cores: Option<&str>) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(CHILD, what).env_remove(VARIABLE);
    if let Some(cores) = cores {
        command.env(VARIABLE, cores);
    }
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{what}: {said}{:?}", output);
}

/// The class that each CPU has for a thread that runs there.
fn classes_of_all() -> Vec<Class> {
    let mut classes = Vec::new();
    platform::cpu::on_each(0..platform::cpu::COUNT_MAX, |_| classes.push(class_of_this_cpu()));
    classes
}

/// The CPUs that this thread may use, as a list.
fn allowed() -> String {
    manx::cpu::CpuSet::of_this_thread().to_string()
}

#[test]
fn classes_hold_for_the_process() {
    const NAME: &str = "classes_hold_for_the_process";
    let all = |class| classes_of_all().iter().all(|&each| each == class);
    let detected = || {
        let machine = Classes::of_this_machine();
        let mut as_detected = true;
        platform::cpu::on_each(0..platform::cpu::COUNT_MAX, |cpu| {
            as_detected &= class_of_this_cpu() == machine.of(cpu);
        });
        as_detected
    };
    match std::env::var(CHILD).as_deref() {
        Ok("told all are little") => {
            assert_eq!(Classes::from_environment().expect("fine").expect("set").why(), "as told");
            assert!(all(Class::Little));
        }
        Ok("told nothing") => {
            assert_eq!(Classes::from_environment(), Ok(None));
            assert!(detected());
        }
        Ok("told nonsense") => {
            let error = Classes::from_environment().expect_err("it is wrong").to_string();
            assert_eq!(error, "`slow:0`: there is no class `slow`: write `big` or `little`");
            assert!(detected());
        }
        Ok("told of CPUs that are not there") => {
            let error = Classes::from_environment().expect_err("it is wrong").to_string();
            assert!(error.starts_with("CPU 8190-8191 is not in this machine: write CPUs among "), "{error}");
            assert!(detected());
        }
        Ok("the program's word is the last") => {
            assert!(all(Class::Little), "the variable");
            set_classes(&Classes::parse(&format!("big:{}", allowed())).expect("fine"));
            assert!(all(Class::Big), "the program");
        }
        Ok("the program's word comes first") => {
            set_classes(&Classes::parse(&format!("big:{}", allowed())).expect("fine"));
            assert!(all(Class::Big), "nobody has asked before");
        }
        Ok("told to measure") => {
            // A caller that needs an answer at once gets what the machine tells.
            assert!(detected());
            let measured = Classes::from_environment().expect("fine").expect("set");
            assert!(matches!(measured.source(), Source::Measured(_) | Source::Alike), "{measured}");
            set_classes(&measured);
            platform::cpu::on_each(0..platform::cpu::COUNT_MAX, |cpu| {
                assert_eq!(class_of_this_cpu(), measured.of(cpu));
            });
        }
        Ok(other) => panic!("no such child: {other}"),
        Err(_) => {
            let little = format!("little:{}", allowed());
            child(NAME, "told all are little", Some(&little));
            child(NAME, "told nothing", None);
            child(NAME, "told nonsense", Some("slow:0"));
            child(NAME, "told to measure", Some("measured"));
            child(NAME, "told of CPUs that are not there", Some("little:8190-8191"));
            child(NAME, "the program's word is the last", Some(&little));
            child(NAME, "the program's word comes first", Some(&little));
        }
    }
}
