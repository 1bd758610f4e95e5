#!/bin/sh
# The first process of the guest in which `cargo xtask guest --tests` runs ../quota.rs: a machine with 8 CPUs and cgroup v2 alone.
# What the tests print goes to the second serial line, then `passed` if all of them ran and passed.
set -u
export PATH=/bin MANX_SKIPS=/tmp/skips

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec >/dev/ttyS1 2>&1
stty -opost <&1
cd /

# There is no C compiler here: instead of stand-ins for the libraries of Manx the tests get the libraries. One test compiles a
# program, and is left out.
printf '#!/bin/sh\nexec ln -s "/lib/manx/${2##*/}" "$2"\n' >/bin/cc
chmod +x /bin/cc
echo "kernel $(uname -r)"
/bin/quota --test-threads=1 --skip the_program_sees_no_child && [ ! -s $MANX_SKIPS ] && echo passed
[ -s $MANX_SKIPS ] && cat $MANX_SKIPS
echo 'end'
exec >/dev/null 2>&1
sync
poweroff -f
