//! Which columns of a table fit into a width, and where they stand.
//!
//! Each column has a rank; those of the lowest ranks are taken first, as long as their least widths
//! fit. What is left over goes to the columns that can use it, in the same order.

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its head
    pub head: &'static str,
    /// Its least width
    pub least: usize,
    /// The width that it can use
    pub most: usize,
    /// Words stand to the left, numbers to the right
    pub is_text: bool,
    /// Columns of a higher rank are left out first
    pub rank: usize,
}

impl Spec {
    /// A column of numbers.
    pub const fn number(head: &'static str, width: usize, rank: usize) -> Spec {
        Spec { head, least: width, most: width, is_text: false, rank }
    }

    /// A column of words.
    pub const fn text(head: &'static str, least: usize, most: usize, rank: usize) -> Spec {
        Spec { head, least, most, is_text: true, rank }
    }
}

/// A column that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its index among the columns
    pub column: usize,
    /// Where it begins
    pub x: usize,
    /// How wide it is
    pub width: usize,
}

/// Places columns in `width` characters, with a space between two.
pub fn fit(specs: &[Spec], width: usize) -> Vec<Placed> {
    let mut order: Vec<usize> = (0..specs.len()).collect();
    order.sort_by_key(|&column| specs[column].rank);
    let mut taken = Vec::new();
    let mut left = width + 1;
    for column in order {
        let Some(rest) = left.checked_sub(specs[column].least + 1) else { break };
        left = rest;
        taken.push(Placed { column, x: 0, width: specs[column].least });
    }
    for place in &mut taken {
        let more = left.min(specs[place.column].most - place.width);
        left -= more;
        place.width += more;
    }
    taken.sort_by_key(|place| place.column);
    let mut x = 0;
    for place in &mut taken {
        place.x = x;
        x += place.width + 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPECS: [Spec; 4] = [
        Spec::number("PID", 7, 0),
        Spec::text("NAME", 8, 20, 1),
        Spec::number("A", 5, 3),
        Spec::number("B", 5, 2),
    ];

    fn heads(width: usize) -> Vec<(&'static str, usize, usize)> {
        fit(&SPECS, width).into_iter().map(|it| (SPECS[it.column].head, it.x, it.width)).collect()
    }

    #[test]
    fn the_highest_rank_is_left_out_first() {
        assert_eq!(heads(80), [("PID", 0, 7), ("NAME", 8, 20), ("A", 29, 5), ("B", 35, 5)]);
        assert_eq!(heads(25), [("PID", 0, 7), ("NAME", 8, 11), ("B", 20, 5)]);
        assert_eq!(heads(7), [("PID", 0, 7)]);
        assert_eq!(heads(6), []);
    }

    proptest! {
        #[test]
        fn columns_stay_within_the_width_and_apart(width in 0..200_usize) {
            let mut free = 0;
            for placed in fit(&SPECS, width) {
                prop_assert!(placed.x >= free && placed.x + placed.width <= width);
                free = placed.x + placed.width + 1;
            }
        }
    }
}
