package realtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/server"
)

// ending returns a copier that stops after a time.
func ending(after time.Duration, f failure) *copier {
	return startCopier(func() failure {
		time.Sleep(after)
		return f
	})
}

func TestFirstEventOfADuplex(t *testing.T) {
	var (
		errReason, errBroken = errors.New("the reason"), errors.New("broken pipe")
		errDrain             = errors.New("over")
		never                = failure{err: errors.New("not reached")}
		clientReason         = failure{side: clientSide, err: errReason}
		serverReason         = failure{side: serverSide, err: errReason}
		toClient             = failure{side: clientSide, writing: true, err: errBroken}
		toServer             = failure{side: serverSide, writing: true, err: errBroken}
	)
	type when struct {
		up, down failure
		upAfter  time.Duration
		dnAfter  time.Duration
		cause    error // at once
		life     time.Duration
	}
	f := func(name string, w when, want failure, cause error) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				d := duplex{up: ending(w.upAfter, w.up), down: ending(w.dnAfter, w.down)}
				if w.cause != nil {
					cancel(w.cause)
				}
				got, err := d.first(ctx, w.life)
				<-d.up.done
				<-d.down.done
				if got != want || !errors.Is(err, cause) {
					t.Errorf("ended by %+v, %v; want %+v, %v", got, err, want, cause)
				}
			})
		})
	}
	const soon, late = 10 * time.Millisecond, time.Second
	f("client", when{up: clientReason, upAfter: soon, down: never, dnAfter: late}, clientReason, nil)
	f("server", when{up: never, upAfter: late, down: serverReason, dnAfter: soon}, serverReason, nil)
	f("server, which could not be written to before", when{up: toServer, down: serverReason, dnAfter: soon}, serverReason, nil)
	f("client, which could not be written to before", when{up: clientReason, upAfter: soon, down: toClient}, clientReason, nil)
	f("server, without a reason", when{up: toServer, down: serverReason, dnAfter: late}, toServer, nil)
	f("server, and the client after it", when{up: toServer, down: toClient, dnAfter: soon}, toServer, nil)
	f("drain", when{up: never, upAfter: late, down: never, dnAfter: late, cause: errDrain}, failure{}, errDrain)
	f("lost client, whose data still arrives", when{up: clientReason, upAfter: soon, down: never, dnAfter: late, cause: server.ErrClientGone}, clientReason, nil)
	f("lost client", when{up: never, upAfter: late, down: never, dnAfter: late, cause: server.ErrClientGone}, failure{}, server.ErrClientGone)
	f("time", when{up: never, upAfter: late, down: never, dnAfter: late, life: soon}, failure{}, errMaxDuration)
}
