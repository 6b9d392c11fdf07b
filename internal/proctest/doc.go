// Package proctest runs fleets of processes for end-to-end tests of faults: entries and the servers of one colo or several as
// an operator starts them, etcd as a process, and simulated engines inside the test.
//
// A [Fleet] has [Node]s, which a test kills, stops, drains, starts again, and cuts off from etcd, from each other and from all
// others. [Fault]s are a history of that, scripted or random, which can be printed and repeated. A [Load] sends requests of
// several kinds meanwhile, and classifies each answer. An [Engine] is the oracle for the limit of its slots, and for the time in
// which no request was started on it, since it sees all requests from all servers.
//
// Each node has a TCP proxy in front of etcd. With [Config.Namespaces], it also has a network namespace of its own, so that a
// host can vanish, and two hosts can lose sight of each other, without any connection being refused.
package proctest
