package node

import (
	"cmp"
	"math"
	"syscall"

	"colonnade/forwarding/server"
)

const (
	// reservedFiles are the files that a node needs beside connections for requests: listeners, admin pages, etcd, events, certificates.
	// A sixteenth of all is added, for refused connections that get a reason and idle ones to servers.
	reservedFiles = 32
	// filesPerConn counts a client's connection, and one to a colo server or an engine, which its request may need.
	filesPerConn = 2
)

// openFiles returns how many files the process may have open. The Go runtime has raised that to the hard limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}

// connsForFiles returns how many connections a number of open files allows, at least one.
func connsForFiles(files, perConn int) int {
	return min(max((files-reservedFiles-files/16)/perConn, 1), server.MaxConns)
}

// maxConns returns the limit of connections of the listener for requests, and logs it.
func (c *Config) maxConns() int {
	files := openFiles()
	allowed := connsForFiles(files, cmp.Or(c.FilesPerConn, filesPerConn))
	limit := cmp.Or(c.MaxConns, allowed)
	if limit > allowed {
		c.Logger.Warn("more connections are allowed than open files: raise the limit of files (ulimit -n, LimitNOFILE), or lower -max-connections",
			"max_connections", limit, "open_files", files, "enough_for", allowed)
		return limit
	}
	c.Logger.Info("limit of connections", "max_connections", limit, "open_files", files)
	return limit
}
