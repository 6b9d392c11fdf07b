// Package balance compares the policies that choose endpoints, in virtual time: the permits and the policies are those of a pool, and
// clients and engines are simulated. A run depends on its seed alone.
//
// An engine runs one prefill after the other, in the order of the grants, and decodes all requests at once, each more slowly the more there
// are. A prefill takes time for each token that is not in the engine's prefix cache. The oracle chooses by these caches themselves, under
// the same load bound and the same queue, so it shows what a policy could find that knew everything.
package balance
