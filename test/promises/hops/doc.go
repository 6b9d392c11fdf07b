// Package hops has the end-to-end tests of requests that cross several colos. Each runs with the entry's own walk over its plan, and
// with colos that send requests on by themselves: three colos next to each other and far from the entry, with a fault proxy on each
// way between them.
//
//   - A request that goes on (goes_on, queued): who serves it and what the client learns, deadlines, queue events, clients that leave;
//     what does not travel.
//   - Full colos (all_full): each is asked once, and the last try waits where the wait is shortest.
//   - Lost servers and connections (lost, swallow, drain): each engine sees a request once, the client gets one answer, permits are
//     released, and each node that carried the request has one final event.
//   - Failures (budgets): retries over three hops stay within their budget, and clients' faults take no endpoint out.
//   - Sessions (session): the name of a session travels on.
//   - Trust (loop, forged, desync, tls): no server is visited twice, no altered token is believed, two parsers never read two requests
//     where one was sent, and keys change under load.
package hops
