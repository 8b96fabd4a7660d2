//! The query path allocates nothing: parsing a QUERY and composing its response, counted.

use catamaran_wire::{
    Class, Composer, EdnsOut, MessageBuilder, Name, Parsed, Rcode, Rtype, Section, Serial, ZoneVersionOut,
    parse_request,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator as it came; the counter is a thread-local cell without destructor,
// whose access allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(run: impl FnOnce() -> T) -> u64 {
    let before = ALLOCATIONS.get();
    let result = run();
    let after = ALLOCATIONS.get();
    drop(result);
    after - before
}

#[test]
fn a_query_is_parsed_and_answered_without_allocation() {
    let name = |text: &str| text.parse::<Name>().unwrap();
    let (qname, apex, ns) = (name("www.example.test"), name("example.test"), name("ns1.example.test"));
    let soa = [ns.as_bytes(), name("hostmaster.example.test").as_bytes(), &[1; 20]].concat();
    let query = MessageBuilder::query(1, qname.as_ref(), Rtype::A).edns(1232, true).option(3, &[]).build();
    let malformed = &query[..query.len() - 1];
    let mut buffer = vec![0; 1232];
    let edns = EdnsOut {
        payload: 1232,
        nsid: Some(b"n1"),
        zoneversion: Some(ZoneVersionOut { label_count: 2, serial: Serial(1) }),
        ede: [Some((20, "not here")), None],
        ..EdnsOut::default()
    };
    assert!(allocations(|| vec![0u8; 100]) > 0, "the counter counts");

    let count = allocations(|| {
        let Parsed::Request(request) = parse_request(&query) else { panic!() };
        let mut composer = Composer::new(&mut buffer, 1232);
        composer.start_response(&request, Rcode::NOERROR, true);
        composer.reserve(edns.byte_count());
        let mut push = |section, owner: &Name, rtype, rdatas: &[&[u8]]| {
            composer.push_rrset(section, owner.as_ref(), rtype, Class::IN, 60, rdatas.iter().copied()).unwrap();
        };
        push(Section::Answer, &qname, Rtype::A, &[&[192, 0, 2, 1], &[192, 0, 2, 2]]);
        push(Section::Authority, &apex, Rtype::NS, &[ns.as_bytes()]);
        push(Section::Authority, &apex, Rtype::SOA, &[&soa]);
        push(Section::Additional, &ns, Rtype::AAAA, &[&[0x20; 16]]);
        composer.finish(Some(&edns))
    });
    assert_eq!(count, 0);

    let count = allocations(|| {
        let Parsed::Reject(reject) = parse_request(malformed) else { panic!() };
        let mut composer = Composer::new(&mut buffer, 512);
        composer.start_reject(&reject);
        composer.finish(None)
    });
    assert_eq!(count, 0);
}
