// Package adminapi registers a worker at the admin listener of a colo server or of colonnade serve, which has its documents on its behalf: for
// machines that do not reach etcd, and for places without one.
//
// The newest state is sent by PUT each third of a TTL, and at once when it changes. A server that does not answer is left for the next one, and
// tried again after all others. A token that is refused, a path that does not exist and a certificate that cannot be verified are errors from the
// start, which end Run; later they may pass, so they are logged and tried again while the engine serves on.
package adminapi
