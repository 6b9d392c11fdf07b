package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/node"
)

// recordTimeout bounds the attempt to reach a process.
const recordTimeout = 2 * time.Second

// recordsOf takes the records out of the keys to delete, and returns the other keys. A record is named by either of its keys.
func recordsOf(keys []string, s *documentState) (records []recordState, others []string) {
	for _, key := range keys {
		first, _, _, ok := parseRecordKey(key)
		at := slices.IndexFunc(s.Records, func(r recordState) bool { return r.Key == first })
		switch {
		case !ok || at < 0:
			others = append(others, key)
		case !slices.ContainsFunc(records, func(r recordState) bool { return r.Key == first }):
			records = append(records, s.Records[at])
		}
	}
	return records, others
}

// checkEnded returns an error unless the processes of all records have ended. With force, it is enough that they do not answer.
func checkEnded(ctx context.Context, records []recordState, s *documentState, force bool) error {
	var running []error
	for i := range records {
		if err := records[i].checkEnded(ctx, s, force); err != nil {
			running = append(running, fmt.Errorf("%s: %w", records[i].Key, err))
		}
	}
	if len(running) > 0 {
		running = append(running, errors.New("nothing was deleted"))
	}
	return errors.Join(running...)
}

func (r *recordState) checkEnded(ctx context.Context, s *documentState, force bool) error {
	if r.Registered {
		return errors.New("its process is registered, and keeps the record itself: stop that server instead; -force does not change this")
	}
	doubt := s.doubt(ctx, r)
	var answers *processAnswersError
	switch {
	case doubt == nil || force && !errors.As(doubt, &answers):
		return nil
	case errors.As(doubt, &answers):
		return doubt
	}
	return fmt.Errorf("it is not certain that its process has ended: %w. The other servers of colo %s delete the record when that is certain, or "+
		"when nothing has been heard of the process for 10 s. If you know that it has ended, repeat this with -force. If it still runs, other servers "+
		"then grant the slots of %s although the process may have requests there: engines get more requests than they have slots", doubt, r.Colo, r.blocks())
}

// processAnswersError says that a process answers at the address of a record.
type processAnswersError struct{ address string }

func (e *processAnswersError) Error() string {
	return fmt.Sprintf("a process answers at its address %s, without being registered: end it, or wait until it has registered again; -force does not "+
		"change this", e.address)
}

// doubt returns why the process of a record may still run; nil if its address refuses connections.
func (s *documentState) doubt(ctx context.Context, r *recordState) error {
	address := r.record.Address
	if _, _, err := net.SplitHostPort(address); err != nil {
		return errors.New("the record has no address at which it could be asked")
	}
	if other := s.processAt(address); other != "" {
		return fmt.Errorf("at its address, %s, now answers %s", address, other)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = connection.Close()
	}
	return doubtAfterDial(address, err)
}

// doubtAfterDial returns why a process may still run, after a connection to its address was opened, or failed.
func doubtAfterDial(address string, err error) error {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	switch {
	case err == nil:
		return &processAnswersError{address}
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("it cannot be asked at its address: %w", err)
	case host == "localhost" || ip.IsLoopback() || ip.IsUnspecified():
		return fmt.Errorf("its address, %s, refuses connections here, but it is that of another machine unless the server ran on this one", address)
	}
	return nil
}

// processAt returns the registered colo server with an address, as node/boot; empty if there is none.
func (s *documentState) processAt(address string) string {
	for _, server := range s.servers {
		if server.Address == address {
			return server.Node + "/" + server.Boot
		}
	}
	return ""
}

// deleteRecord deletes a record unless it has changed, or its process has registered, since it was read.
func deleteRecord(ctx context.Context, client *etcd.Client, r *recordState) error {
	records := etcd.NewRecords(etcd.RecordsConfig{Client: client, Prefix: node.Prefix, Colo: r.Colo})
	done, err := records.Replace(ctx, r.record, nil)
	if err == nil && !done {
		err = fmt.Errorf("cannot delete %s: it has changed, or its process has registered, since it was read", r.Key)
	}
	return err
}
