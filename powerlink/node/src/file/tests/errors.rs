//! Invalid files.

use super::super::*;
use super::NETWORK;

/// An invalid file, which may lack its network; the error: position, key and value; the remedy.
const FAULTS: &[[&str; 3]] = &[
    ["", "1:1: network is missing", "add network = { cycle-us = 10000 }"],
    ["[network]\ncycle-us = 100\n", "2:12: network.cycle-us: 100 is out of range", "from 200 to"],
    [NETWORK, "the network has no nodes", "add [[node]] with id = 1"],
    [
        "[network]\ncycle-us = 1000\ncylce = 1\n[[node]]\nid = 1\n",
        "3:1: network: unknown key \"cylce\"",
        "keys here",
    ],
    ["[[node]]\nid = 240\n", "node[0].id: 240 is out of range", "use a whole number from 1 to 239"],
    ["[[node]]\nid = 1\n[[node]]\nid = 1\n", "duplicate node id 1", "a different id"],
    [
        "[[node]]\nid = 1\nbackend = \"xpd\"\n",
        "node[0].backend: unknown value \"xpd\"",
        "did you mean \"xdp\"?",
    ],
    [
        "[[node]]\nid = 1\ninterface = \"eth 1\"\n",
        "node[0].interface: \"eth 1\" cannot name an interface",
        "without white space",
    ],
    [
        "[[node]]\nid = 1\nvirtual-ethernet = \"plk%d\"\n",
        "node[0].virtual-ethernet: \"plk%d\" cannot name an interface: it contains a percent sign",
        "and \"%\"",
    ],
    [
        "[[node]]\nid = 1\ninterface = \"eth1\"\nvirtual-ethernet = \"eth1\"\n",
        "node[0].virtual-ethernet: \"eth1\" is the interface of the bus",
        "such as \"plk0\"",
    ],
    [
        "[[node]]\nid = 1\nresponse = \"automatic\"\n",
        "node[0].response: back end packet does not support automatic responses",
        "backend = \"xdp\" or \"module\"",
    ],
    [
        "[managing]\nbackend = \"xdp\"\nsoc = \"automatic\"\n[[node]]\nid = 1\n",
        "managing.soc: back end xdp does not support launch times",
        "backend = \"txtime\" or \"module\"",
    ],
    [
        "[[node]]\nid = 1\npres-timeout-us = 2000\n",
        "node[0].pres-timeout-us: 2000 is out of range",
        "from 1 to 1000",
    ],
    [
        "[[node]]\nid = 1\nstore = \"kept/\"\n",
        "node[0].store: invalid file name \"kept/\"",
        "such as \"drive.dcf\"",
    ],
    [
        "[[node]]\nid = 1\nstore = \"a.dcf\"\n[[node]]\nid = 2\nstore = \"a.dcf\"\n",
        "node[1]: duplicate store a.dcf",
        "a different store",
    ],
    [
        "[[node]]\nid = 1\nmultiplexed = 1\n",
        "node[0].multiplexed: the network has no multiplexed cycle",
        "multiplexed-cycles = 4",
    ],
    [
        "[network]\ncycle-us = 1000\nmultiplexed-cycles = 2\n[[node]]\nid = 1\nmultiplexed = 3\n",
        "node[0].multiplexed: 3 is out of range",
        "from 1 to 2",
    ],
    [
        "[[node]]\nid = 1\n[[node.input]]\ntype = \"u24\"\n",
        "node[0].input[0].type: unknown value \"u24\"",
        "\"u16\"",
    ],
    [
        "[[node]]\nid = 1\n[[node.input]]\ntype = \"u8\"\nobject = \"24576\"\n",
        "node[0].input[0].object: invalid object \"24576\"",
        "\"6000/01\"",
    ],
    [
        "[[node]]\nid = 1\ninput = [{ type = \"u8\", object = \"6200/01\" }]\noutput = [{ type = \
         \"u8\" }]\n",
        "node[0]: node 1: object 6200/01 already exists",
        "objects of signals must differ",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 2, input = \"a\" } }]\n",
        "node[0].output[0].from: node 2 not found in the network",
        "the id of another node",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 1, input = \"a\" } }]\n",
        "node[0].output[0].from: node 1 is this node",
        "the id of another node",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ from = { node = 2, input = \"a\" } }]\n[[node]]\nid = \
         2\ninput = [{ name = \"b\", type = \"u8\" }, { type = \"u8\" }]\n",
        "node[0].output[0].from: node 2 has no input \"a\"",
        "inputs of node 2: b, input 2",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ type = \"u16\", from = { node = 2, input = \"b\" } \
         }]\n[[node]]\nid = 2\ninput = [{ name = \"b\", type = \"u8\" }]\n",
        "input \"b\" of node 2 is UNSIGNED8, this output UNSIGNED16",
        "the type of the input",
    ],
    [
        "[[node]]\nid = 1\noutput = [{ simulate = \"copy\", from = { node = 2, input = \"b\" } }]\n",
        "node[0].output[0]: unknown key \"simulate\"",
        "keys here",
    ],
    [
        "[[node]]\nid = 1\nparameter = [{ object = \"1C0B/03\", octets = \"28\" }]\n",
        "node[0]: node 1: value of object 1C0B/03 is invalid",
        "must have the number of octets of its object",
    ],
];

#[test]
fn errors_have_position_value_and_remedy() {
    for [text, what, help] in FAULTS {
        let network = if text.starts_with("[[") { NETWORK } else { "" };
        let text = format!("{network}{text}");
        let error = File::parse(&text, "bus.toml").expect_err(&text).to_string();
        assert!(error.contains("bus.toml:") && error.contains(what), "{what}:\n{error}");
        assert!(error.contains(help), "{help}:\n{error}");
    }
}

#[test]
fn a_misspelled_key_is_one_error() {
    for text in [
        "[netwrok]\ncycle-us = 1000\n[[node]]\nid = 1\n",
        "[network]\ncycle_us = 1000\n[[node]]\nid = 1\n",
        "[network]\ncycle-us = 1000\n[[nodes]]\nid = 1\n",
        "[network]\ncycle-us = 1000\n[[node]]\nidd = 1\n",
    ] {
        let error = File::parse(text, "bus.toml").expect_err(text);
        assert_eq!(error.count(), 1, "{error}");
        assert!(error.to_string().contains("did you mean "), "{error}");
    }
}
