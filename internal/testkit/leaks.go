package testkit

import "go.uber.org/goleak"

// VerifyMain runs the tests and checks for leaked goroutines, like goleak.VerifyTestMain, except those of fasthttp and
// of the client of NATS.
func VerifyMain(m goleak.TestingM) {
	goleak.VerifyTestMain(m,
		// These end some seconds after the thing that they clean, or never.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*Client).mCleaner"),
		// This one misses the end of a connection that ends just before it begins.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
	)
}
