package realtime

// For external tests.
const (
	MessageRate  = messageRate
	MessageBurst = messageBurst
	PaceStep     = minDelay
)

// RunCopier runs carry as one direction of a connection whose other direction has ended, and returns or panics as whatever waits
// for it does.
func RunCopier(carry func()) {
	stopped := func() failure { return failure{} }
	d := duplex{down: startCopier(stopped), up: startCopier(func() failure {
		carry()
		return failure{}
	})}
	<-d.up.done
	firstFailure(d.up, d.down)
}
