package realtime

// For external tests.
const (
	MessageRate  = messageRate
	MessageBurst = messageBurst
	MinDelay     = minDelay
)

// RunCopier runs the copier of one direction of a connection whose other direction has ended, and returns or panics as the owner of the
// connection does.
func RunCopier(run func()) {
	stopped := func() failure { return failure{} }
	d := duplex{down: startCopier(stopped), up: startCopier(func() failure {
		run()
		return failure{}
	})}
	<-d.up.done
	firstFailure(d.up, d.down)
}
