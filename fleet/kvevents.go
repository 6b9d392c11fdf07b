package fleet

import (
	"net"
	"strconv"
	"strings"
)

// MaxKVEventRanks is the most ranks of one engine whose events are read.
const MaxKVEventRanks = 64

// KVEventAddresses returns host and port of each publisher that [Endpoint.KVEvents] names, and whether it is valid.
func KVEventAddresses(address string) (all []string, ok bool) {
	rest, isTCP := strings.CutPrefix(address, "tcp://")
	colon := strings.LastIndexByte(rest, ':')
	if !isTCP || colon < 0 {
		return nil, false
	}
	host, _, err := net.SplitHostPort(rest[:colon] + ":1")
	first, last, several := strings.Cut(rest[colon+1:], "-")
	if !several {
		last = first
	}
	from, noFirst := strconv.ParseUint(first, 10, 16)
	to, noLast := strconv.ParseUint(last, 10, 16)
	if err != nil || host == "" || noFirst != nil || noLast != nil || from == 0 || several && to <= from || to-from >= MaxKVEventRanks {
		return nil, false
	}
	for port := from; port <= to; port++ {
		all = append(all, net.JoinHostPort(host, strconv.FormatUint(port, 10)))
	}
	return all, true
}
