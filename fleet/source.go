package fleet

import "embed"

// Source holds the files of this package that describe documents: the comments of fields are their documentation, for
// schemas and reference pages.
//
//go:embed account.go apikey.go auto.go capture.go colo.go deletions.go endpoint.go flow.go issuer.go model.go pool.go position.go promptfilter.go ratelimits.go sink.go worker.go
var Source embed.FS
