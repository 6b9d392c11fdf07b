package transport

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdleTime is shorter than the time after which engines close idle connections (uvicorn: 5 s).
	maxIdleTime = 4 * time.Second
	// maxIdlePerTarget is the highest number of idle connections to one target.
	maxIdlePerTarget = 512
	// handoverSilence is how long a connection that has served one account must have been silent before it serves another: an answer that
	// is late by less can reach no other account.
	handoverSilence = 100 * time.Millisecond
	// distrustTime is for how long no connection is kept to a server that has sent something out of turn, from the last time on.
	distrustTime = time.Hour
)

// idleConns are the idle connections of a transport. Its methods may be called by several goroutines at once.
type idleConns struct {
	logger *slog.Logger

	mu         sync.Mutex           // guards the fields below
	lists      map[Target]*idleList // not empty for long: see removeBefore
	distrusted map[string]time.Time // addresses to which no connection is kept, and until when
	closed     bool
}

// idleList are the idle connections to one target. A connection remembers its list, so that keeping it again needs no look-up.
type idleList struct {
	conns   []*conn // by the time since when they are idle, the latest last
	removed bool    // from idleConns.lists
}

// take returns the most recently used connection that an account may use, or nil. The server may have closed it.
func (i *idleConns) take(to *Target, account string, now time.Time) *conn {
	for {
		c := i.pop(to, account, now)
		if c == nil || now.Sub(c.idleSince) < maxIdleTime && c.trustVersion == to.Peer.Version() {
			return c
		}
		c.Close()
	}
}

func (i *idleConns) pop(to *Target, account string, now time.Time) *conn {
	settled := now.Add(-handoverSilence)
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.lists[*to]
	if list == nil {
		return nil
	}
	for at := len(list.conns) - 1; at >= 0; at-- {
		if c := list.conns[at]; c.account == account || c.idleSince.Before(settled) {
			list.conns = slices.Delete(list.conns, at, at+1)
			return c
		}
	}
	return nil
}

// put keeps a connection, or closes it.
func (i *idleConns) put(c *conn) {
	if !i.add(c) {
		c.Close()
	}
}

func (i *idleConns) add(c *conn) bool {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.distrustsLocked(c.target.Address, now) {
		return false
	}
	list := i.listOfLocked(c)
	if len(list.conns) >= maxIdlePerTarget {
		return false
	}
	c.idleSince, c.kept = now, true
	list.conns = append(list.conns, c)
	return true
}

// listOfLocked returns the list for a connection.
func (i *idleConns) listOfLocked(c *conn) *idleList {
	if c.list != nil && !c.list.removed {
		return c.list
	}
	if c.list = i.lists[*c.target]; c.list == nil {
		c.list = new(idleList)
		i.lists[*c.target] = c.list
	}
	return c.list
}

// removeLocked removes a list, and returns its connections.
func (i *idleConns) removeLocked(to Target, list *idleList) []*conn {
	delete(i.lists, to)
	list.removed = true
	return list.conns
}

func (i *idleConns) distrustsLocked(address string, now time.Time) bool {
	if len(i.distrusted) == 0 {
		return false
	}
	return now.Before(i.distrusted[address])
}

// distrust closes the idle connections to an address, and lets none be kept for distrustTime.
func (i *idleConns) distrust(address string) {
	now := time.Now()
	i.mu.Lock()
	known := i.distrustsLocked(address, now)
	i.distrusted[address] = now.Add(distrustTime)
	var old []*conn
	for to, list := range i.lists {
		if to.Address == address {
			old = append(old, i.removeLocked(to, list)...)
		}
	}
	i.mu.Unlock()
	closeAll(old)
	if !known {
		i.logger.Warn("server sent something out of turn: no connection to it is kept", "address", address, "for", distrustTime)
	}
}

func (i *idleConns) distrustedLen(now time.Time) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, until := range i.distrusted {
		if now.Before(until) {
			n++
		}
	}
	return n
}

// expire closes connections that have been idle for too long, and looks a last time for something out of turn.
func (i *idleConns) expire(now time.Time) {
	for _, c := range i.removeBefore(now.Add(-maxIdleTime)) {
		if errors.Is(c.checkTurn(0), errOutOfTurn) {
			i.distrust(c.target.Address)
		}
		c.Close()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.distrusted, func(_ string, until time.Time) bool { return until.Before(now) })
}

// removeBefore removes the connections that have been idle since before a time, and lists that are empty then.
func (i *idleConns) removeBefore(before time.Time) (old []*conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for to, list := range i.lists {
		n := 0
		for n < len(list.conns) && list.conns[n].idleSince.Before(before) {
			n++
		}
		old = append(old, list.conns[:n]...)
		if list.conns = slices.Delete(list.conns, 0, n); len(list.conns) == 0 {
			i.removeLocked(to, list)
		}
	}
	return old
}

// close closes all connections, and those that are put later.
func (i *idleConns) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	closeAll(i.removeBefore(time.Now().Add(time.Hour)))
}

func (i *idleConns) len() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, list := range i.lists {
		n += len(list.conns)
	}
	return n
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.Close()
	}
}
