// Package shared enforces limits that several nodes have in common, through Redis.
//
// One script takes all that a request demands, atomically and in one round trip; the clock is that of Redis. The difference between the
// demand of a request and its use is sent with the next request of the same limit, or by [Limiter.Run] a moment later.
//
// While Redis does not answer within [Config.Timeout], the node enforces its share: of each limit the part that it has among the live
// nodes, beginning with empty buckets (see package ratelimit). Once Redis answers again, the node takes from its buckets what it has granted
// meanwhile, at most until they are empty. If Redis has lost its state meanwhile, its buckets begin empty, too. So the bound of package
// ratelimit holds across the loss of Redis, and its return. A node that alone does not reach Redis adds at most its share, since the others
// do not know.
//
// Without Redis, each node enforces its share all the time.
package shared
