//! `cluster status`: the members, as reported by the leader.

use super::super::client::Client;
use super::super::output::{counted, print};
use crate::limits::CLOCK_DIFFERENCE_MS_MAX;
use crate::target::Target;
use config::api_types::{MemberJson, StatusJson, UnreachableJson, ZoneMemoryJson};
use config::date::day_text;
use process::problem::{Exit, Problem};

pub(super) fn run(json: bool, target: &Target) -> Result<(), Problem> {
    let client = Client::find(target)?;
    let Some(status) = &newest(&client) else {
        return Err(Problem::new(Exit::Unreachable, "cannot list the members", "no node answers")
            .hint("start the nodes, or give the address of one with --api"));
    };
    let text = if json {
        serde_json::to_string_pretty(status)
            .map_err(|error| Problem::new(Exit::Failed, "cannot print the response", error))?
    } else {
        table(status)
    };
    print(text.trim_end())?;
    if status.leader.is_some() {
        return Ok(());
    }
    Err(Problem::new(Exit::Unreachable, "the cluster accepts no changes", "no node knows a leader")
        .hint("more than half of the voters must run and reach each other"))
}

/// The status of the leader, or else of the node with the highest applied index.
pub(super) fn newest(client: &Client) -> Option<StatusJson> {
    let found = client.nodes().iter().filter_map(|&node| client.status(node, false).ok());
    found.max_by_key(|status| (status.role == "leader", status.term, status.applied_index))
}

/// Node numbers as text.
pub(super) fn numbers(nodes: &[u64]) -> String {
    nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// A line for the cluster, and one for each member.
fn table(status: &StatusJson) -> String {
    let leader = status.leader.map_or("none".to_owned(), |leader| format!("node {leader}"));
    let voters = status.members.iter().filter(|member| member.voter).count();
    let may_fail = voters.saturating_sub(1) / 2;
    let mut rows = vec![
        ["node", "role", "address", "applied", "lag", "heard", "level", "certificate", "zone memory"]
            .map(str::to_owned),
    ];
    rows.extend(status.members.iter().map(|member| row(status, member)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 9] = std::array::from_fn(width);
    let mut text = format!(
        "leader {leader}, term {}, {} ({may_fail} may fail), feature level {}\n",
        status.term,
        counted(voters, "voter"),
        status.feature_level
    );
    if status.role != "leader" {
        text.push_str(&format!(
            "as seen by node {}, which is not the leader and does not know the progress of other nodes\n",
            status.node
        ));
    }
    if status.ca_count > 1 {
        text.push_str("the CA is being replaced; to continue: `catamaran cluster rotate --ca`\n");
    }
    text.push_str(&rotation(status));
    text.push_str(&clocks(status));
    text.push_str(&unreachable(status));
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The nodes that answer for zones with `ack = all-live`, if there are such zones.
fn rotation(status: &StatusJson) -> String {
    let members = || status.members.iter().filter(|member| member.in_rotation.is_some());
    let within: Vec<_> =
        members().filter(|member| member.in_rotation == Some(true)).map(|member| member.node.to_string()).collect();
    match members().next() {
        Some(_) if within.is_empty() => "no node answers for zones with `ack = all-live`\n".to_owned(),
        Some(_) => format!("zones with `ack = all-live` are answered by node {}\n", within.join(", ")),
        None => String::new(),
    }
}

/// The nodes that the queried node cannot connect to.
fn unreachable(status: &StatusJson) -> String {
    let line = |member: &MemberJson| {
        let UnreachableJson { address, why, for_ms } = member.unreachable.as_ref()?;
        let (from, to, for_s) = (status.node, member.node, for_ms / 1_000);
        Some(format!("node {from} cannot connect to node {to} at {address} for {for_s} s: {why}\n"))
    };
    status.members.iter().filter_map(line).collect()
}

/// The nodes whose clocks are wrong.
fn clocks(status: &StatusJson) -> String {
    let line = |member: &MemberJson| {
        let ahead_ms = member.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() > CLOCK_DIFFERENCE_MS_MAX)?;
        let (by_s, way) = (ahead_ms.unsigned_abs() / 1_000, if ahead_ms > 0 { "ahead" } else { "behind" });
        Some(format!("the clock of node {} is {by_s} s {way}: correct it\n", member.node))
    };
    status.members.iter().filter_map(line).collect()
}

fn row(status: &StatusJson, member: &MemberJson) -> [String; 9] {
    let is_leader = status.leader == Some(member.node);
    let unknown = || "-".to_owned();
    [
        member.node.to_string(),
        if is_leader { "leader".to_owned() } else { member.role.clone() },
        member.address.clone(),
        member.applied_index.map_or_else(unknown, |index| index.to_string()),
        member.applied_index.map_or_else(unknown, |index| status.commit_index.saturating_sub(index).to_string()),
        match member.heard_ms {
            Some(ms) if ms < 10_000 => format!("{ms} ms ago"),
            Some(ms) => format!("{} s ago", ms / 1_000),
            None if member.node == status.node => "itself".to_owned(),
            None if status.role == "leader" => "never".to_owned(),
            None => unknown(),
        },
        member.feature_level.map_or_else(unknown, |level| level.to_string()),
        member.certificate.as_ref().map_or_else(unknown, |of| day_text(of.expires_s)),
        member.zone_memory.as_ref().map_or_else(unknown, memory),
    ]
}

fn memory(of: &ZoneMemoryJson) -> String {
    format!("{} of {} MiB", of.used_bytes.div_ceil(1 << 20), of.limit_bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::api_types::CertificateJson;

    fn member(node: u64, role: &str, applied_index: Option<u64>, heard_ms: Option<u64>) -> MemberJson {
        MemberJson {
            node,
            raft_id: node,
            address: format!("192.0.2.{node}:5380"),
            voter: role == "voter",
            role: role.to_owned(),
            in_rotation: None,
            applied_index,
            heard_ms,
            feature_level: applied_index.map(|_| 2),
            certificate: applied_index.map(|_| CertificateJson {
                expires_s: 1_800_000_000,
                ca: 1,
                renewal: 0,
                data_key: 1,
                knows_next_keys: true,
            }),
            clock_ahead_ms: Some(5),
            unreachable: None,
            zone_memory: applied_index.map(|index| ZoneMemoryJson { used_bytes: index << 20, limit_bytes: 512 << 20 }),
        }
    }

    #[test]
    fn a_table_names_every_member_and_what_it_is() {
        let status = StatusJson {
            members: vec![
                member(1, "voter", Some(120), None),
                member(2, "voter", Some(118), Some(40)),
                member(3, "voter", None, None),
                member(4, "learner", Some(20), Some(70_000)),
            ],
            ..StatusJson::of_a_leader()
        };
        let expected = "\
leader node 1, term 7, 3 voters (1 may fail), feature level 2
node  role     address         applied  lag  heard      level  certificate  zone memory
1     leader   192.0.2.1:5380  120      0    itself     2      2027-01-15   120 of 512 MiB
2     voter    192.0.2.2:5380  118      2    40 ms ago  2      2027-01-15   118 of 512 MiB
3     voter    192.0.2.3:5380  -        -    never      -      -            -
4     learner  192.0.2.4:5380  20       100  70 s ago   2      2027-01-15   20 of 512 MiB
";
        assert_eq!(table(&status), expected);
        let elsewhere = StatusJson { node: 2, role: "follower".into(), ..status };
        // A follower does not know when the leader heard from the others.
        assert!(table(&elsewhere).contains("not the leader") && !table(&elsewhere).contains("never"));
        let replacing = StatusJson { ca_count: 2, ..elsewhere.clone() };
        assert!(table(&replacing).contains("rotate --ca"));
        let mut wrong = elsewhere.clone();
        (wrong.members[0].clock_ahead_ms, wrong.members[1].clock_ahead_ms) = (Some(10_800_000), Some(-61_500));
        let lines =
            "the clock of node 1 is 10800 s ahead: correct it\nthe clock of node 2 is 61 s behind: correct it\n";
        assert!(table(&wrong).contains(lines) && !table(&elsewhere).contains("clock"));
        let mut lost = elsewhere.clone();
        let why = "Connection refused (os error 111)".to_owned();
        lost.members[2].unreachable = Some(UnreachableJson { address: "ns3.test:5380".into(), why, for_ms: 7_900 });
        let line = "node 2 cannot connect to node 3 at ns3.test:5380 for 7 s: Connection refused (os error 111)\n";
        assert!(table(&lost).contains(line), "{}", table(&lost));
        let mut rotating = elsewhere;
        for member in &mut rotating.members {
            member.in_rotation = Some(member.node < 3);
        }
        assert!(table(&rotating).contains("\nzones with `ack = all-live` are answered by node 1, 2\n"));
    }
}
