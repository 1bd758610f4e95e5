//! An affinity mask made smaller.

/// How many CPUs a mask has.
pub fn count(mask: &[u8]) -> usize {
    mask.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// Leaves `most` CPUs of a mask in it, at least one, and takes out all others: the CPUs that stay
/// are the next ones from CPU `from` on, and behind the last CPU the first ones.
///
/// A mask is words of the machine's order. On the little-endian machines that this is for, its
/// bytes in order have the CPUs in order.
pub fn narrow(mask: &mut [u8], most: usize, from: usize) {
    const { assert!(cfg!(target_endian = "little")) };
    let (mut left, cpus) = (most.max(1), mask.len() * 8);
    let from = if from < cpus { from } else { 0 };
    for cpu in (from..cpus).chain(0..from) {
        let (byte, bit) = (&mut mask[cpu / 8], 1 << (cpu % 8));
        if *byte & bit == 0 {
            continue;
        }
        match left.checked_sub(1) {
            Some(fewer) => left = fewer,
            None => *byte &= !bit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_from_a_certain_one_on_stay() {
        let narrowed = |mask: [u8; 3], most, from| {
            let mut mask = mask;
            narrow(&mut mask, most, from);
            mask
        };
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 3, 0), [0b0011_0010, 0, 0]);
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 3, 5), [0b1010_0000, 1, 0]);
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 5, 0), [0b1011_0010, 1, 0]);
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 4, 15), [0b0001_0010, 0x80, 1]);
        assert_eq!(narrowed([0, 0, 0x80], 1, 3), [0, 0, 0x80]);
        assert_eq!(narrowed([0, 2, 0x80], 0, 10), [0, 0, 0x80]);
        assert_eq!(narrowed([0, 2, 0x80], 0, 1000), [0, 2, 0]);
        assert_eq!(narrowed([0xff; 3], 24, 7), [0xff; 3]);
        assert_eq!(narrowed([0; 3], 1, 1), [0; 3]);
    }

    #[test]
    fn a_word_of_the_c_library_is_its_bytes() {
        // SAFETY: zeroes are an empty set, and the CPUs lie within it.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            [3, 64, 65, 200].iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
            set
        };
        // SAFETY: a cpu_set_t is integers without gaps.
        let mut bytes: [u8; size_of::<libc::cpu_set_t>()] = unsafe { std::mem::transmute(set) };
        assert_eq!(count(&bytes), 4);
        narrow(&mut bytes, 2, 0);
        // SAFETY: as above.
        let narrowed: libc::cpu_set_t = unsafe { std::mem::transmute(bytes) };
        // SAFETY: as above.
        let there = |cpu| unsafe { libc::CPU_ISSET(cpu, &narrowed) };
        assert_eq!([3, 64, 65, 200].map(there), [true, true, false, false]);
    }
}
