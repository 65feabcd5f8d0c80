//! A wall clock that never jumps, made of one that may.
//!
//! Deadlines, retries and due times are points on the wall clock. If somebody sets it an hour forward, every saga whose deadline
//! lies within that hour must not be undone; if somebody sets it back, no retry may wait an hour longer. So the engine's time
//! goes with the running clock, and only leans towards the wall clock until the two agree again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_core::Time;
use tokio::time::{Instant, sleep};

use crate::Clock;
use crate::lease::ms;

/// How often the course is set anew, in milliseconds: short enough for a jump to be noticed at once, long enough to lean by whole
/// milliseconds.
const COURSE_MS: u64 = 1_000;

/// The clock leans by at most one part in so many, which is little more than what clocks drift anyway. Participants measure
/// `seals_after` and `key_ttl` on clocks of their own: a quarter of an hour must not be over here when ten minutes are there. What
/// a larger jump leaves for long is only that times are shown as the wall clock said before it, until the engine starts again.
const LEAN: u64 = 1_000;

/// How long a sleeper sleeps at most before it looks at the clock again, in milliseconds.
const LOOK_MS: u64 = 10_000;

/// The engine's clock over any other.
pub(crate) struct Steady {
    clock: Arc<dyn Clock>,
    began: Instant,
    began_running_ms: u64,
    course: Mutex<Course>,
}

struct Course {
    /// Where it began, in milliseconds since this clock began, and on this one.
    from_ms: u64,
    from: Time,
    /// What was said last: it never runs backwards.
    last: Time,
}

impl Steady {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let course = Course { from_ms: 0, from: now, last: now };
        Self {
            began: Instant::now(),
            began_running_ms: clock.running_ms(),
            clock,
            course: Mutex::new(course),
        }
    }

    pub(crate) fn now(&self) -> Time {
        // The runtime's clock stands still while the machine is suspended; the running one may be no better than the wall clock
        // on some systems. Neither runs ahead, so the one that got further is right.
        let running_ms = self.clock.running_ms().saturating_sub(self.began_running_ms);
        let since_ms = running_ms.max(ms(self.began.elapsed()));
        self.course.lock().unwrap_or_else(PoisonError::into_inner).now(since_ms, self.clock.now())
    }

    /// As the clock below says it: what leases are measured on.
    pub(crate) fn running_ms(&self) -> u64 {
        self.clock.running_ms()
    }

    /// Returns once [`Steady::now`] is `at` or later.
    pub(crate) async fn sleep_until(&self, at: Time) {
        loop {
            let left_ms = at.since_ms(self.now());
            if left_ms == 0 {
                return;
            }
            // It may lean forward meanwhile, or the machine be suspended: look again from time to time.
            sleep(Duration::from_millis(left_ms.min(LOOK_MS))).await;
        }
    }
}

impl Course {
    fn now(&mut self, since_ms: u64, wall: Time) -> Time {
        let elapsed = since_ms.saturating_sub(self.from_ms);
        let straight = self.from.plus_ms(elapsed);
        let lean = elapsed / LEAN;
        let now = if wall >= straight {
            straight.plus_ms(wall.since_ms(straight).min(lean))
        } else {
            self.from.plus_ms(elapsed - straight.since_ms(wall).min(lean))
        };
        self.last = now.max(self.last);
        if elapsed >= COURSE_MS {
            (self.from_ms, self.from) = (since_ms, self.last);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);
    const HOUR_MS: u64 = 3_600_000;

    fn course() -> Course {
        Course { from_ms: 0, from: START, last: START }
    }

    /// What it says after each of these, given (running, how far the wall clock is off by then).
    fn run(looks: &[(u64, i64)]) -> Vec<u64> {
        let mut course = course();
        let look = |(running, off): &(u64, i64)| {
            course.now(*running, Time(START.plus_ms(*running).0 + off)).since_ms(START)
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn it_goes_with_a_wall_clock_that_is_right() {
        assert_eq!(run(&[(0, 0), (1, 0), (999, 0), (5_000, 0), (5_001, 0)]), [0, 1, 999, 5_000, 5_001]);
    }

    #[test]
    fn a_jump_forward_is_made_up_for_slowly() {
        let hour = HOUR_MS as i64;
        assert_eq!(
            run(&[(1_000, 0), (1_010, hour), (2_000, hour), (3_000, hour)]),
            [1_000, 1_010, 2_001, 3_002]
        );
    }

    #[test]
    fn a_jump_back_slows_it_down_and_never_turns_it_back() {
        let hour = -(HOUR_MS as i64);
        assert_eq!(
            run(&[(1_000, 0), (1_900, 0), (1_910, hour), (2_900, hour), (3_900, hour)]),
            [1_000, 1_900, 1_910, 2_899, 3_898]
        );
    }

    #[test]
    fn it_agrees_again_in_the_end() {
        for off in [-5_000, 5_000, -7, 7] {
            let mut course = course();
            let mut last = START;
            for second in 1..=8_000 {
                let running = second * 1_000;
                let now = course.now(running, Time(START.plus_ms(running).0 + off));
                assert!(now >= last, "it runs backwards");
                last = now;
            }
            assert_eq!(last.0, START.plus_ms(8_000_000).0 + off, "off by {off}");
        }
    }
}
