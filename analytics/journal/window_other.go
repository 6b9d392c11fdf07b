//go:build !linux || portable

package journal

import (
	"errors"
	"os"
	"time"
)

// window maps nothing: every line is written.
type window struct{}

func (*window) extend(*os.File, int64, int64, int64) error { return errors.ErrUnsupported }
func (*window) close()                                     {}
func (*window) put([]byte, int64, time.Time) error         { return errors.ErrUnsupported }
