//! Filter expressions of pcap-filter(7) for packets of files.

use onbeat_netdev::libpcap::PcapFilter;

/// Link types of files whose number differs from that of the kernel (LINKTYPE_RAW, DLT_RAW).
const LINKTYPE_RAW: u16 = 101;
const DLT_RAW: i32 = 12;

/// Maximum number of terms of an expression. libpcap's time grows with their cube: 0.3 s for 100, 8 s for 300.
const MOST_TERMS: usize = 128;

/// The number of conditions that `and` and `or` join.
fn terms(expression: &str) -> usize {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric());
    let symbols = ["||", "&&"].map(|symbol| expression.matches(symbol).count());
    1 + words.filter(|word| ["and", "or"].contains(word)).count() + symbols.iter().sum::<usize>()
}

/// Compiles an expression for packets of a link type, by its number in files.
pub(crate) fn compile(link_type: u16, expression: &str) -> Result<PcapFilter, String> {
    let terms = terms(expression);
    if terms > MOST_TERMS {
        return Err(format!(
            "it has {terms} terms, more than the limit of {MOST_TERMS}; join them, for example by portrange or net"
        ));
    }
    PcapFilter::compile(
        if link_type == LINKTYPE_RAW { DLT_RAW } else { link_type.into() },
        expression,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_testing::require_that;

    #[test]
    fn expressions_select_packets_of_their_link_type() {
        if !require_that(onbeat_netdev::libpcap::functions().is_ok(), "libpcap") {
            return;
        }
        let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 9, 0, 7, 0, 8, 0, 0]);
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(&packet);
        for (link_type, octets) in [(1, &frame), (LINKTYPE_RAW, &packet)] {
            for (expression, keeps) in [
                ("udp and dst port 7", true),
                ("not (src net 10.0.0.0/8 or tcp)", false),
                ("udp[0:2] = 9", true),
                ("", true),
            ] {
                let filter = compile(link_type, expression).unwrap();
                let len = octets.len() as u32;
                assert_eq!(filter.keeps(octets, len), keeps, "{link_type}: {expression}");
            }
        }
        let ports = |count: u16| (1..=count).map(|port| format!("port {port}")).collect::<Vec<_>>();
        assert!(compile(1, &ports(20).join(" or ")).is_ok());
        for joint in [" or ", "||", " and ", "&&"] {
            let error = compile(1, &ports(129).join(joint)).unwrap_err();
            assert!(error.starts_with("it has 129 terms, more than the limit of 128; "), "{error}");
        }
        let error = compile(1, "udp and and").unwrap_err();
        assert!(error.starts_with("libpcap: ") && error.contains("syntax error"), "{error}");
        let error = compile(LINKTYPE_RAW, "ether host 02:00:00:00:00:01").unwrap_err();
        assert!(error.contains("supported only on ethernet"), "{error}");
    }
}
