// Package roundtrip estimates how long the network takes to another place and back, from many measurements of it.
//
// A measurement is the time of an exchange without the time for which the other side had the request. It is never shorter than the network
// takes, and longer by all that delays a packet or a goroutine now and then: queues, a lost packet, a busy processor. So the least of many
// measurements is nearest to the truth, as TCP's min_rtt is (RFC 9438 and the BBR drafts use such a window too), and the least of the last
// ten seconds follows a route that changes.
//
// A lower least is believed at once, since nothing arrives before the network has carried it. A higher one may only mean that no packet was
// quick lately, so the estimate approaches it: by half of the way in two seconds, and by no more than half at a time, so that one slow answer
// from a place that answers rarely does not decide alone.
package roundtrip
