//! Selection of native or generic mode, with cause and remedy if native mode is not possible.

use onbeat_frer::dataplane::Mode;
use onbeat_netdev::XdpMode;

use crate::config::{self, PortConfig};

/// Largest MTU that every driver with native XDP supports: a frame with headroom and tailroom must fit in one page.
const NATIVE_MTU: u32 = 3000;

/// XDP abilities of an interface's driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ability {
    /// The driver; empty if unknown.
    pub(super) driver: String,
    /// It runs programs in native mode.
    pub(super) programs: bool,
    /// Its programs can redirect frames to other interfaces.
    pub(super) redirect: bool,
    /// It transmits frames redirected by programs of other interfaces.
    pub(super) transmit: bool,
    /// Mode of the attached program, if any.
    pub(super) running: Option<XdpMode>,
    /// The command that starts NAPI at the other end of a veth, if that end was found.
    pub(super) start_polling: Option<String>,
}

impl Ability {
    /// Whether the driver may transmit redirected frames once this node attaches a program: most drivers require
    /// a program of their own. A veth requires NAPI at its other end instead.
    fn may_transmit(&self, port: &PortConfig) -> bool {
        let native = self.programs && self.redirect && port.mode != config::Mode::Generic;
        native && self.running.is_none() && self.driver != "veth"
    }
}

/// Selects the mode of a port whose frames leave by `egress`; returns the cause if mode "auto" results in generic
/// mode. `expect_transmit`: egress ports without a program are expected to transmit frames once they have one. A
/// port that `needs_native` uses native mode even if the other end of an egress veth does not receive frames
/// yet: it may start later.
pub(super) fn choose(
    port: &PortConfig,
    ability: &Ability,
    egress: &[(&PortConfig, Ability)],
    expect_transmit: bool,
    needs_native: bool,
) -> (Mode, Option<String>) {
    let why = match port.mode {
        config::Mode::Native => return (Mode::Native, None),
        config::Mode::Generic => return (Mode::Generic, None),
        config::Mode::Auto => of_driver(port, ability).or_else(|| {
            let takes = |(to, ability): &&(&PortConfig, Ability)| {
                ability.transmit
                    || expect_transmit && ability.may_transmit(to)
                    || needs_native && ability.driver == "veth"
            };
            let mut refusing = egress.iter().filter(|egress| !takes(egress));
            refusing.next().map(|(to, ability)| of_egress(to, ability))
        }),
    };
    (if why.is_some() { Mode::Generic } else { Mode::Native }, why)
}

/// Why the port's driver does not support native mode.
fn of_driver(port: &PortConfig, ability: &Ability) -> Option<String> {
    let lacks = match (ability.programs, ability.redirect) {
        (true, true) => return None,
        (false, _) => "does not support XDP",
        (true, false) => "does not support XDP redirection",
    };
    let interface = port.attached_interface();
    Some(format!(
        "{} {lacks}; use an interface whose driver does (onbeat doctor {interface}), or \
         set mode = \"generic\" if that is sufficient",
        driver_of(port, ability),
    ))
}

/// Why an egress port cannot transmit frames of native programs.
fn of_egress(to: &PortConfig, ability: &Ability) -> String {
    let interface = to.attached_interface();
    let port = format!("frames are forwarded to port {:?}", to.name);
    if ability.driver == "veth" {
        let refusal = format!(
            "{port}, and its veth {interface} transmits frames of native programs only while its peer \
             is up and runs NAPI"
        );
        match &ability.start_polling {
            Some(command) => format!("{refusal}; run: {command}"),
            None => format!(
                "{refusal}; the peer was not found; run in its namespace, with its name for PEER: \
                 ethtool -K PEER gro on"
            ),
        }
    } else if ability.programs && ability.running != Some(XdpMode::Native) {
        format!(
            "{port}, which is not in native mode itself, and does not transmit frames of native \
             programs; see that port"
        )
    } else {
        format!(
            "{port}, and {} does not transmit frames of native programs; use an interface whose \
             driver does for that port (onbeat doctor {interface}), or set mode = \"generic\" if that is \
             sufficient",
            driver_of(to, ability),
        )
    }
}

/// Why a driver may have refused the program with `answer`.
pub(super) fn refused(
    node: &str,
    port: &PortConfig,
    ability: &Ability,
    mtu: u32,
    answer: impl std::fmt::Display,
) -> String {
    let driver = driver_of(port, ability);
    // A veth receives the frames of its other end, and checks the MTU there.
    let veth = ability.driver == "veth";
    let way_out = if veth || mtu > NATIVE_MTU {
        format!(
            "native programs require a frame in one page: instead of an MTU of {mtu}, set {NATIVE_MTU} or \
             less on the port{}; {}",
            if veth { " and on the other end of the veth" } else { "" },
            start_again(node)
        )
    } else {
        format!(
            "see onbeat doctor {}, or set mode = \"generic\" if that is sufficient",
            port.attached_interface()
        )
    };
    format!("{driver} refused the program: {answer}; {way_out}")
}

/// Why a program still runs in generic mode though native mode is possible.
pub(super) fn from_before() -> String {
    "an earlier start attached it in this mode; the node attaches it natively within seconds".into()
}

/// The kernel reports no change of the other end of a veth.
fn start_again(node: &str) -> String {
    format!("then run onbeat down {node}, and start the node again")
}

fn driver_of(port: &PortConfig, ability: &Ability) -> String {
    let interface = port.attached_interface();
    match ability.driver.as_str() {
        "" => format!("the driver of {interface}"),
        driver => format!("the driver of {interface}, {driver},"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn ability(driver: &str) -> Ability {
        Ability {
            driver: driver.into(),
            programs: true,
            redirect: true,
            transmit: true,
            running: None,
            start_polling: None,
        }
    }

    fn ports() -> Vec<PortConfig> {
        let text = r#"
            port = [{ name = "talker", interface = "eth0" }, { name = "path1", interface = "eth1" }]
        "#;
        Config::parse(text, "a.toml").unwrap().ports
    }

    fn why(own: &Ability, egress: Ability) -> Option<String> {
        let ports = ports();
        let (mode, why) = choose(&ports[0], own, &[(&ports[1], egress)], true, false);
        assert_eq!(mode == Mode::Generic, why.is_some());
        why
    }

    #[test]
    fn native_mode_is_used_if_possible() {
        assert_eq!(why(&ability("igc"), ability("veth")), None);
    }

    #[test]
    fn a_driver_without_native_mode_is_reported_with_a_remedy() {
        let mut own = Ability { programs: false, ..ability("tg3") };
        let said = why(&own, ability("igc")).unwrap();
        assert!(said.starts_with("the driver of eth0, tg3, does not support XDP; "), "{said}");
        assert!(
            said.contains("onbeat doctor eth0") && said.contains("mode = \"generic\""),
            "{said}"
        );
        own = Ability { redirect: false, ..ability("") };
        let said = why(&own, ability("igc")).unwrap();
        assert!(said.starts_with("the driver of eth0 does not support XDP redirection"), "{said}");
    }

    #[test]
    fn an_egress_port_that_accepts_no_frames_is_reported_with_a_remedy() {
        let cannot = |driver| Ability { transmit: false, ..ability(driver) };
        let own = ability("igc");
        let said = why(&own, cannot("veth")).unwrap();
        assert!(said.contains("port \"path1\", and its veth eth1 "), "{said}");
        assert!(said.ends_with("ethtool -K PEER gro on"), "{said}");
        let said = why(&own, Ability { programs: false, ..cannot("bridge") }).unwrap();
        assert!(said.contains("the driver of eth1, bridge, does not transmit frames"), "{said}");
        assert!(said.contains("onbeat doctor eth1"), "{said}");
        // A stream that needs native mode waits for the other end of a veth, and for no other driver.
        let ports_now = ports();
        let needs = |egress: Ability| {
            choose(&ports_now[0], &own, &[(&ports_now[1], egress)], false, true).0
        };
        assert_eq!(needs(cannot("veth")), Mode::Native);
        assert_eq!(needs(Ability { programs: false, ..cannot("bridge") }), Mode::Generic);
        let command = "ip netns exec h1 ethtool -K eth0 gro on";
        let said =
            why(&own, Ability { start_polling: Some(command.into()), ..cannot("veth") }).unwrap();
        assert!(said.ends_with(&format!("NAPI; run: {command}")), "{said}");
    }

    #[test]
    fn a_driver_that_may_transmit_with_a_program_permits_native_mode() {
        let (own, mut ports) = (ability("igc"), ports());
        let before = Ability { transmit: false, ..ability("igc") };
        let choose = |ports: &[PortConfig], egress: &Ability, expect_transmit| {
            let egress = [(&ports[1], egress.clone())];
            choose(&ports[0], &own, &egress, expect_transmit, false)
        };
        let mode = |ports: &[PortConfig], egress: &Ability, expect_transmit| {
            choose(ports, egress, expect_transmit).0
        };
        assert_eq!(mode(&ports, &before, true), Mode::Native);
        assert_eq!(mode(&ports, &before, false), Mode::Generic, "it cannot transmit");
        for running in [XdpMode::Native, XdpMode::Generic] {
            let after = Ability { running: Some(running), ..before.clone() };
            assert_eq!(
                mode(&ports, &after, true),
                Mode::Generic,
                "it has a program and cannot transmit"
            );
        }
        ports[1].mode = config::Mode::Generic;
        let (mode, why) = choose(&ports, &before, true);
        assert_eq!(mode, Mode::Generic, "it will have no native program");
        assert!(
            why.is_some_and(|why| why.contains("\"path1\", which is not in native mode itself"))
        );
    }

    #[test]
    fn a_mode_in_the_file_is_used() {
        let own = Ability { programs: false, ..ability("tg3") };
        for (wanted, mode) in
            [(config::Mode::Native, Mode::Native), (config::Mode::Generic, Mode::Generic)]
        {
            let mut ports = ports();
            ports[0].mode = wanted;
            assert_eq!(choose(&ports[0], &own, &[], true, false), (mode, None));
        }
    }

    #[test]
    fn a_refusal_is_reported_with_its_probable_cause() {
        let said = |driver, mtu| refused("a", &ports()[0], &ability(driver), mtu, "EINVAL");
        let large = said("igb", 9000);
        assert!(large.starts_with("the driver of eth0, igb, refused the program: EINVAL; "));
        assert!(large.contains("MTU of 9000, set 3000 or less on the port; then"), "{large}");
        assert!(said("veth", 1500).contains("on the other end of the veth"));
        let other = said("igb", 1500);
        assert!(!other.contains("MTU") && other.contains("onbeat doctor eth0"), "{other}");
    }
}
