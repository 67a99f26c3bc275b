//! The help text: it fits on a screen of 80 columns and 24 lines.

/// Keys and columns.
pub(super) const TEXT: &str = "\
Keys
  h ? F1      this help                  q Esc F10   quit
  s > F6 <    next, previous order       1 ... 6     caused, suffered, packets,
  / F3 F4     list rows with a text;                 per packet, PID, command
              Esc lists all rows again   b           next key of groups
  t F5        tree: processes by group   d           next device
  e           a line for each device     c           a table for each CPU
  i           hard interrupts below      space       pause
  arrows j k Page Home End: scroll

Columns, as shares of one CPU
  CAUSED      softirq and NAPI time for packets of the process
  SUFFERED    softirq and NAPI time that interrupted the process
  PACKETS     packets for it, after GRO
  PER PKT     caused time of each packet
  DEVICE      receiving device, and the evidence if it is not a read
  GROUP       container, systemd unit, or control group

Evidence: reader   read the socket last      owner   has it open, never read it
          listener connection requests       kernel  forwarded, dropped, ICMP
          unknown  no known owner or end     other   timers, RCU, block ...

Any key closes this help. Manual: onbeat irq top --help";
