//! An axis: from values to places, and where it is labelled.

/// The largest number of ticks on an axis.
const TICKS_MAX: usize = 64;
/// On a logarithmic axis that reaches further than this there is one a decade, or their labels
/// would cover each other.
const CROWDED: f64 = 2000.0;
/// About the width of a letter.
const LETTER: f64 = 6.6;
/// The least room between two labels.
const GAP: f64 = 8.0;

/// From values to places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) logarithmic: bool,
}

impl Axis {
    pub(super) fn over(values: impl Iterator<Item = f64>, logarithmic: bool) -> Axis {
        let shown = values.filter(|v| v.is_finite() && (*v > 0.0 || !logarithmic));
        let (mut low, mut high) = shown.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        if !logarithmic {
            return Axis { low: 0.0, high: if high > 0.0 { high * 1.1 } else { 1.0 }, logarithmic };
        }
        if !low.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        Axis { low: low / 1.15, high: high * 1.15, logarithmic }
    }

    /// From 0 to 1, or nothing outside.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        let scale = |v: f64| if self.logarithmic { v.ln() } else { v };
        let place = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        (0.0..=1.0).contains(&place).then_some(place)
    }

    /// Where the axis is labelled: 1, 2 and 5 of each decade or 1 alone, or about five round steps.
    pub(super) fn ticks(self) -> Vec<f64> {
        let digits = if self.high / self.low > CROWDED { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
        if self.logarithmic { self.decades(digits) } else { self.steps() }
    }

    fn decades(self, digits: &[f64]) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut decade = power(self.low);
        while decade <= self.high && decade > 0.0 && ticks.len() < TICKS_MAX {
            ticks.extend(digits.iter().map(|digit| digit * decade));
            decade *= 10.0;
        }
        ticks.retain(|&tick| tick >= self.low && tick <= self.high);
        ticks
    }

    fn steps(self) -> Vec<f64> {
        let rough = self.high / 5.0;
        let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power(rough) >= rough);
        let step = digit.unwrap_or(10.0) * power(rough);
        (0..TICKS_MAX).map(|n| n as f64 * step).take_while(|&tick| tick <= self.high).collect()
    }

    /// The ticks whose labels have room beside each other on an axis of this width: all of them,
    /// those of the decades, or as many as there is room for.
    pub(super) fn ticks_across(self, width: f64, label: fn(f64) -> String) -> Vec<f64> {
        let mut ticks = self.ticks();
        if self.logarithmic && fitting(self, &ticks, width, label).len() < ticks.len() {
            let decades = self.decades(&[1.0]);
            ticks = if decades.len() > 1 { decades } else { ticks };
        }
        fitting(self, &ticks, width, label)
    }
}

/// The ticks whose labels cover no earlier one.
fn fitting(axis: Axis, ticks: &[f64], width: f64, label: fn(f64) -> String) -> Vec<f64> {
    let mut free = f64::NEG_INFINITY;
    let fits = |tick: &f64| {
        let Some(place) = axis.place(*tick) else { return false };
        let half = label(*tick).chars().count() as f64 * LETTER / 2.0;
        let is_free = place * width - half >= free;
        if is_free {
            free = place * width + half + GAP;
        }
        is_free
    };
    ticks.iter().copied().filter(fits).collect()
}

fn power(value: f64) -> f64 {
    10f64.powf(value.log10().floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis { low: 30.0, high: 700.0, logarithmic: true };
        assert_eq!(axis.ticks(), [50.0, 100.0, 200.0, 500.0]);
        let axis = Axis { low: 30.0, high: 70_000.0, logarithmic: true };
        assert_eq!(axis.ticks(), [100.0, 1000.0, 10_000.0]);
        let axis = Axis { low: 0.0, high: 42.0, logarithmic: false };
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let axis = Axis { low: 9.0, high: 1100.0, logarithmic: true };
        let label = |value: f64| format!("{value} seconds");
        assert_eq!(axis.ticks_across(1000.0, label).len(), 7);
        assert_eq!(axis.ticks_across(300.0, label), [10.0, 100.0, 1000.0]);
        assert_eq!(axis.ticks_across(100.0, label), [10.0, 1000.0]);
    }

    #[test]
    fn the_ends_of_what_a_number_can_be_have_ticks_too() {
        for (low, high) in [(5e-324, 1.7e308), (1e300, 1.7e308), (5e-324, 5e-324)] {
            let axis = Axis::over([low, high].into_iter(), true);
            assert!(axis.ticks().len() <= TICKS_MAX + 2);
            assert!(Axis::over([low, high].into_iter(), false).ticks().len() <= TICKS_MAX);
        }
    }
}
