package nvml

import "errors"

// ErrNoEvents is what Wait returns if no GPU ever reported events.
var ErrNoEvents = errors.New("no GPU reports events: Xids are not seen")
