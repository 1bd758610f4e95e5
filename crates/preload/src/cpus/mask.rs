//! An affinity mask made smaller.

/// How many CPUs a mask has.
pub fn count(mask: &[u8]) -> usize {
    mask.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// Leaves the first `most` CPUs of a mask in it, at least one, and takes out those behind them.
///
/// A mask is words of the machine's order. On the little-endian machines that this is for, its
/// bytes in order have the CPUs in order.
pub fn narrow(mask: &mut [u8], most: usize) {
    const { assert!(cfg!(target_endian = "little")) };
    let mut left = most.max(1);
    for byte in mask {
        while byte.count_ones() as usize > left {
            // Its highest CPU.
            *byte &= !(0x80 >> byte.leading_zeros());
        }
        left -= byte.count_ones() as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpus_stay() {
        let narrowed = |mask: [u8; 3], most| {
            let mut mask = mask;
            narrow(&mut mask, most);
            mask
        };
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 3), [0b0011_0010, 0, 0]);
        assert_eq!(narrowed([0b1011_0010, 0xff, 1], 5), [0b1011_0010, 1, 0]);
        assert_eq!(narrowed([0, 0, 0x80], 1), [0, 0, 0x80]);
        assert_eq!(narrowed([0, 2, 0x80], 0), [0, 2, 0]);
        assert_eq!(narrowed([0xff; 3], 24), [0xff; 3]);
        assert_eq!(narrowed([0; 3], 1), [0; 3]);
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
        narrow(&mut bytes, 2);
        // SAFETY: as above.
        let narrowed: libc::cpu_set_t = unsafe { std::mem::transmute(bytes) };
        // SAFETY: as above.
        let there = |cpu| unsafe { libc::CPU_ISSET(cpu, &narrowed) };
        assert_eq!([3, 64, 65, 200].map(there), [true, true, false, false]);
    }
}
