package link

import (
	"errors"
	"fmt"
	"time"
)

const (
	// silenceTick is how often the silence of the other side is looked at. Time in which this process was stopped counts as about one tick.
	silenceTick = time.Second
	// ticksToPing is how many ticks of silence, while there are streams, lead to a ping; ticksToDoubt how many make the link unusable for further streams.
	ticksToPing  = 2
	ticksToDoubt = 4
	// ticksToGiveUp is how many ticks of silence break a link at the side that accepts streams, and how many without progress of a write at either side.
	ticksToGiveUp = 32
	// ticksToEnd is after how many ticks without streams, or bytes to be written, the accepting side ends a link that is draining, if the other side has not.
	ticksToEnd = 5
)

// watch asks for an answer when the other side is silent, and ends the link as [watcher.tick] says.
func (l *Link) watch() {
	tick := time.NewTicker(silenceTick)
	defer tick.Stop()
	w := watcher{link: l}
	for {
		select {
		case <-tick.C:
		case <-l.stop:
			return
		}
		if err := w.tick(); err != nil {
			l.fail(err)
			return
		}
	}
}

// watcher is what the goroutine of watch has seen.
type watcher struct {
	link    *Link
	rounds  uint64 // of the reader
	silent  int    // ticks since then, if an answer is due
	taken   uint64 // bytes that the connection has taken
	stalled int    // ticks since then, while bytes are pending
	drained int    // ticks since the link has done its work
}

// tick returns why to end the link, or nil.
func (w *watcher) tick() error {
	l := w.link
	if w.drained++; !l.isDrained() {
		w.drained = 0
	}
	if w.drained == ticksToEnd {
		l.sender.flush()
		return errEnded
	}
	if err := w.tickSilence(); err != nil {
		return err
	}
	if l.Streams() == 0 {
		l.sender.trim()
	}
	return w.tickStall()
}

// tickSilence returns an error if the other side has been silent for too long. The side that opens streams keeps those that are open: the other process may have
// been stopped, and then continues them later, as it would over connections of their own. The reader of a stream knows how long to wait. A silent link takes no
// further streams, and ends with its last one.
func (w *watcher) tickSilence() error {
	l := w.link
	switch rounds := l.rounds.Load(); {
	case rounds != w.rounds:
		w.rounds, w.silent = rounds, 0
		l.silent.Store(false)
		return nil
	case w.silent < ticksToPing && l.Streams() == 0:
		w.silent = 0
		return nil
	}
	w.silent++
	switch {
	case w.silent == ticksToPing:
		l.sender.push(frame{kind: kindPing})
		l.sender.flush()
	case w.silent < ticksToDoubt:
	case l.accept == nil:
		l.silent.Store(true)
		l.sender.wakeTurns() // streams that are not open yet need not wait
		if l.Streams() == 0 {
			return errSilent
		}
	case w.silent >= ticksToGiveUp:
		return errSilent
	}
	return nil
}

// tickStall returns an error if the connection has taken nothing for too long. If the other side is silent as well, that is left to tickSilence.
func (w *watcher) tickStall() error {
	l := w.link
	taken := l.sender.taken.Load()
	if w.stalled++; taken != w.taken || l.sender.pending() == 0 || l.silent.Load() {
		w.taken, w.stalled = taken, 0
	}
	if w.stalled >= ticksToGiveUp {
		return fmt.Errorf("the other side has taken nothing for %s", ticksToGiveUp*silenceTick)
	}
	return nil
}

// errSilent is the cause of the end of a link whose other side does not answer.
var errSilent = errors.New("no answer to a ping")

// isDrained reports whether the link is draining, and has neither streams nor bytes to be written.
func (l *Link) isDrained() bool {
	if l.sender.pending() > 0 { // before the link's mutex, which is locked after the sender's
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining && len(l.streams) == 0
}
