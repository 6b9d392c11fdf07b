// Package ratelimit decides whether a request is within limits: of requests and tokens a minute, and of budgets. It has no clock and no
// network.
//
// # Rates
//
// A limit of so many units a minute is enforced by the generic cell rate algorithm (GCRA), the virtual scheduling algorithm of ITU-T
// recommendation I.371, annex A, which is equivalent to a token bucket. Each unit takes an interval of a minute divided by the limit. The
// state of a bucket is one time, the theoretical arrival time: the moment from which on nothing of the limit is in use. Units of a request
// move it by their intervals, counted from now if it has passed. A request is allowed if it does not come to lie further than the burst
// ahead of now. The burst is a minute, so a bucket that is full holds the units of one minute.
//
// Hence of a limit L, the units that are taken within any time t are at most L + L·t, with t in minutes: those of a full bucket, and those
// that flow in meanwhile. A request that takes more than a full bucket holds needs a full one.
//
// How many tokens a request takes is known at its end only. At its beginning it takes an estimate, and at its end [Buckets.Settle] returns
// or takes the difference. So a bucket may be overdrawn, by at most what running requests take beyond their estimates; the next requests
// wait until that has been paid back.
//
// # Budgets
//
// A budget bounds a sum, such as the cost of a day. A request is allowed while the sum is below the budget, and adds to it at its end.
//
// # Shares
//
// Where several nodes enforce one limit without a common state, each enforces its share. A bucket of a share holds at least one unit. After
// [Buckets.Restart], each bucket counts as empty: the nodes together have used at most what the common bucket held until then, and their
// shares add up to the limit, so that the bound above holds across the change.
package ratelimit
