//! Accidents that have nothing to do with what a node is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::sim::Sim;

/// Lets accidents happen for as long as there are faults.
pub(crate) async fn accidents(sim: Arc<Sim>) {
    let rate = sim.options.accidents_per_minute;
    if rate <= 0.0 {
        return;
    }
    while !sim.is_calm() {
        let (pause, host, what, time) = {
            let mut state = sim.state();
            let dice = &mut state.dice.nodes;
            let pause = Duration::from_secs_f64(60.0 / rate)
                .mul_f64(f64::from(u32::try_from(dice.within(1..=200)).unwrap_or(100)) / 100.0);
            (pause, sim.hosts()[dice.below(sim.hosts().len())].clone(), dice.below(4), dice.ms(500..=9_000))
        };
        sleep(pause).await;
        if sim.is_calm() {
            return;
        }
        let Some(life) = host.life() else { continue };
        match what {
            0 => {
                sim.state().tally.crashes += 1;
                life.crash("is killed");
            }
            1 => {
                sim.note(format_args!("{} stands still for {time:?}", life.id));
                life.stand_still(time);
            }
            2 if sim.options.outages => sim.go_away(time),
            _ => host.stop(&sim, time / 10).await,
        }
    }
}
