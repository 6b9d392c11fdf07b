// Package registration keeps the documents of a worker in etcd: workers/<node> and, once the engine has answered, endpoints/<colo>/<id>, both
// under one lease, so that they expire together when the worker is killed.
//
// # Errors from the start
//
// Run of the [worker.Registry] ends with an error if the worker can never be of use: the colo has no document, another living worker or an
// operator has one of its keys, an operator's document has the engine's URL under another key, or the documents of the engine's models all
// name other pools. While another worker has registered the engine's URL under another key, it waits. A worker whose place was taken later, while it could not reach etcd, says so and tries again, since its engine serves.
//
// # Models
//
// Before the endpoint is put, the documents of its pool and of its models are created where there are none, as one change with the author
// "register" in the history. A model that exists under this name, or has it as an alias, is left as it is.
//
// # Requests in flight
//
// Each server of a colo has a record in etcd: the engines that it may grant on, and how many requests it has on others (package homes). A
// server that reads an endpoint's concurrency 0 stops granting, and then puts its record without the engine and with the number of its requests
// there, until that is 0. So once no record mentions the engine, no server has a request on it that it granted before. A server that was
// about to become the home of the pool may have read an older version of the endpoint, and its record may not be there yet: so the records
// are read twice. The rest of that risk is a request that finds the engine gone before it has sent a byte, and goes to another engine.
package registration
