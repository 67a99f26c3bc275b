//! Native or generic mode, and where a port cannot be native, why and what to do.

use onbeat_frer::dataplane::Mode;
use onbeat_netdev::XdpMode;

use crate::config::{self, PortConfig};

/// Largest MTU that every driver with native XDP takes: programs want a frame, with room before and
/// behind it, in one page.
const NATIVE_MTU: u32 = 3000;

/// What the driver of an interface can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ability {
    /// The driver; empty where it does not say.
    pub(super) driver: String,
    /// It runs programs itself.
    pub(super) programs: bool,
    /// Its programs can send frames on to other interfaces.
    pub(super) redirect: bool,
    /// It takes frames that programs on other interfaces send on to it.
    pub(super) transmit: bool,
    /// How the program runs that is there now.
    pub(super) running: Option<XdpMode>,
    /// The command that makes the other end of a veth poll, where that end was found.
    pub(super) start_polling: Option<String>,
}

impl Ability {
    /// Most drivers take frames of other interfaces' programs once they run one themselves, and not
    /// before: where this node is about to give them one, that is to be seen. A veth looks at its
    /// other end instead.
    fn may_transmit(&self, port: &PortConfig) -> bool {
        let native = self.programs && self.redirect && port.mode != config::Mode::Generic;
        native && self.running.is_none() && self.driver != "veth"
    }
}

/// How programs are to run on a port whose frames leave by `egress`, and why not natively where that
/// was left open. Before ports that frames leave by have their programs, `hope` that they will take
/// frames then. A port that `needs_native` gets it also where frames leave by a veth whose other end
/// does not take them yet: that may start later.
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

/// Why the port's own driver cannot.
fn of_driver(port: &PortConfig, ability: &Ability) -> Option<String> {
    let lacks = match (ability.programs, ability.redirect) {
        (true, true) => return None,
        (false, _) => "runs no XDP programs",
        (true, false) => "runs XDP programs that cannot send frames on",
    };
    let interface = port.attached_interface();
    Some(format!(
        "{} {lacks}; give the port an interface whose driver does (onbeat doctor {interface}), or \
         say mode = \"generic\" where that is good enough",
        driver_of(port, ability),
    ))
}

/// Why a port that frames leave by cannot take them from native programs.
fn of_egress(to: &PortConfig, ability: &Ability) -> String {
    let interface = to.attached_interface();
    let port = format!("frames go on to port {:?}", to.name);
    if ability.driver == "veth" {
        let refusal = format!(
            "{port}, and {interface}, a veth, takes them from native programs only while its other \
             end is up and polls"
        );
        match &ability.start_polling {
            Some(command) => format!("{refusal}; run: {command}"),
            None => format!(
                "{refusal}; that end was not found: in its namespace, with its name for PEER, run: \
                 ethtool -K PEER gro on"
            ),
        }
    } else if ability.programs && ability.running != Some(XdpMode::Native) {
        format!(
            "{port}, which is not in native mode itself, and takes none from native programs then; \
             see there"
        )
    } else {
        format!(
            "{port}, and {} takes none from native programs; give that port an interface whose \
             driver does (onbeat doctor {interface}), or say mode = \"generic\" where that is good \
             enough",
            driver_of(to, ability),
        )
    }
}

/// Why a driver, asked to run the program, may have refused it with `answer`.
pub(super) fn refused(
    node: &str,
    port: &PortConfig,
    ability: &Ability,
    mtu: u32,
    answer: impl std::fmt::Display,
) -> String {
    let driver = driver_of(port, ability);
    // A veth receives what its other end sends, and looks at the MTU there.
    let veth = ability.driver == "veth";
    let way_out = if veth || mtu > NATIVE_MTU {
        format!(
            "native programs want a frame in one page: with an MTU of {mtu}, set {NATIVE_MTU} or \
             less on the port{}; {}",
            if veth { " and on the other end of the veth" } else { "" },
            start_again(node)
        )
    } else {
        format!(
            "see onbeat doctor {}, or say mode = \"generic\" where that is good enough",
            port.attached_interface()
        )
    };
    format!("{driver} refused the program: {answer}; {way_out}")
}

/// Why a program still runs in generic mode where it could be native.
pub(super) fn from_before(node: &str) -> String {
    format!(
        "it was attached so by an earlier start, and could be native now: onbeat down {node}, and \
         start it again"
    )
}

/// Where the mode is left open a program keeps the one it has, over starts of the daemon, too.
pub(super) fn start_again(node: &str) -> String {
    format!("then onbeat down {node}, and start it again")
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
    fn what_can_be_native_is() {
        assert_eq!(why(&ability("igc"), ability("veth")), None);
    }

    #[test]
    fn a_driver_that_cannot_is_named_with_the_way_out() {
        let mut own = Ability { programs: false, ..ability("tg3") };
        let said = why(&own, ability("igc")).unwrap();
        assert!(said.starts_with("the driver of eth0, tg3, runs no XDP programs; "), "{said}");
        assert!(
            said.contains("onbeat doctor eth0") && said.contains("mode = \"generic\""),
            "{said}"
        );
        own = Ability { redirect: false, ..ability("") };
        let said = why(&own, ability("igc")).unwrap();
        assert!(
            said.starts_with("the driver of eth0 runs XDP programs that cannot send"),
            "{said}"
        );
    }

    #[test]
    fn an_egress_port_that_takes_nothing_is_named_with_the_way_out() {
        let cannot = |driver| Ability { transmit: false, ..ability(driver) };
        let own = ability("igc");
        let said = why(&own, cannot("veth")).unwrap();
        assert!(said.contains("port \"path1\", and eth1, a veth,"), "{said}");
        assert!(said.ends_with("ethtool -K PEER gro on"), "{said}");
        let said = why(&own, Ability { programs: false, ..cannot("bridge") }).unwrap();
        assert!(said.contains("the driver of eth1, bridge, takes none"), "{said}");
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
        assert!(said.ends_with(&format!("polls; run: {command}")), "{said}");
    }

    #[test]
    fn a_driver_that_takes_frames_once_it_runs_a_program_is_given_one() {
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
        assert_eq!(mode(&ports, &before, false), Mode::Generic, "it did not come true");
        for running in [XdpMode::Native, XdpMode::Generic] {
            let after = Ability { running: Some(running), ..before.clone() };
            assert_eq!(mode(&ports, &after, true), Mode::Generic, "it runs one, and takes none");
        }
        ports[1].mode = config::Mode::Generic;
        let (mode, why) = choose(&ports, &before, true);
        assert_eq!(mode, Mode::Generic, "it will run none of its own");
        assert!(
            why.is_some_and(|why| why.contains("\"path1\", which is not in native mode itself"))
        );
    }

    #[test]
    fn what_is_said_in_the_file_is_done() {
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
    fn a_refusal_is_told_with_what_may_be_the_reason() {
        let said = |driver, mtu| refused("a", &ports()[0], &ability(driver), mtu, "EINVAL");
        let large = said("igb", 9000);
        assert!(large.starts_with("the driver of eth0, igb, refused the program: EINVAL; "));
        assert!(large.contains("MTU of 9000, set 3000 or less on the port; then"), "{large}");
        assert!(said("veth", 1500).contains("on the other end of the veth"));
        let other = said("igb", 1500);
        assert!(!other.contains("MTU") && other.contains("onbeat doctor eth0"), "{other}");
    }
}
