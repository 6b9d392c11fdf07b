package document

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"colonnade/fleet"
)

// captureLeeway is how much the clocks of the command that writes a capture and of a node may differ.
const captureLeeway = 5 * time.Minute

// checkCapture refuses a capture that would go on for so long that it is forgotten.
func checkCapture(c *fleet.Capture, now time.Time) *fieldError {
	if ahead := c.Until.Sub(now); ahead > fleet.MaxCapture+captureLeeway {
		return &fieldError{Field: "until", Value: quote(c.Until.Format(time.RFC3339)),
			Reason: fmt.Sprintf("is %s ahead, and a capture may last %s at most; choose an earlier time, and start it again if it must go on", ahead.Round(time.Minute), fleet.MaxCapture)}
	}
	return nil
}

// validCaptureSink checks what the pattern of a capture's sink leaves open.
func validCaptureSink(s string) bool {
	if path, isFile := strings.CutPrefix(s, "file:/"); isFile {
		return fs.ValidPath(path) && path != "."
	}
	return validURL(s)
}
