package testkit

import "go.uber.org/goleak"

// VerifyMain is goleak's, for tests in which fasthttp serves.
func VerifyMain(m goleak.TestingM) {
	goleak.VerifyTestMain(m,
		// fasthttp's own, which end some seconds after what they clean, or never.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*Client).mCleaner"),
	)
}
