package files

import "github.com/fsnotify/fsnotify"

// Bounds of a change.
const (
	SettleTime    = settleTime
	MaxSettleTime = maxSettleTime
)

// OpenNotifierBy replaces what connects the watcher to the notifications of the file system.
func (w *Watcher) OpenNotifierBy(open func() (*fsnotify.Watcher, error)) { w.newNotifier = open }
