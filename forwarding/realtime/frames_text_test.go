package realtime_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"colonnade/internal/wiretest"
)

// Autobahn 6: valid UTF-8 passes, however it is cut; other text ends the session with 1007 as soon as it can be recognised.
func TestTextFrames(t *testing.T) {
	t.Parallel()
	r := newEchoRelay(t)
	r.exchange("6.1.1 empty", echoes(wiretest.Text("")))
	r.exchange("6.1.2 three empty", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("")}})
	r.exchange("6.1.3 empty around", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation("middle"), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("middle")}})
	for _, s := range utf8Cases {
		name := fmt.Sprintf("6 %.60q", s)
		c := echoes(wiretest.Text(s))
		if !utf8.ValidString(s) {
			c = frameCase{send: []wiretest.Frame{wiretest.Text(s)}, code: 1007}
		}
		r.exchange(name, c)
		if len(s) > 1 {
			c.send = cut(s, 1)
			r.exchange(name+" byte by byte", c)
		}
	}
	r.exchange("6 binary is not text", echoes(wiretest.Binary("\xff\xed\xa0\x80")))
	// The rest of these messages never comes.
	const good = "\u03ba\u1f79\u03c3\u03bc\u03b5"
	r.exchange("6.4.1 fails fast", frameCase{send: []wiretest.Frame{wiretest.FirstText(good), wiretest.Continuation("\xf4\x90\x80\x80")}, code: 1007})
	r.exchange("6.4.2 faster", frameCase{send: []wiretest.Frame{wiretest.FirstText(good + "\xf4"), wiretest.Continuation("\x90")}, code: 1007})
	r.exchange("6.4.3 within a frame", frameCase{send: []wiretest.Frame{wiretest.Text(good + "\xf4\x90\x80\x80edited")}, code: 1007, chop: 6 + len(good) + 4})
	unfinished := wiretest.Text(good + "\xf4\x90" + strings.Repeat("x", 100)).Masked()
	r.exchange("6.4.4 before the frame has come", frameCase{raw: unfinished[:6+len(good)+2], code: 1007})
}

// utf8Cases are the texts of 6.2 to 6.23.
var utf8Cases = []string{
	"Hello-\u00b5@\u00df\u00f6\u00e4\u00fc\u00e0\u00e1-UTF-8!!",            // 6.2
	"\u03ba\u1f79\u03c3\u03bc\u03b5\xed\xa0\x80edited",                     // 6.3
	"\u03ba\u1f79\u03c3\u03bc\u03b5",                                       // 6.5
	"\xce", "\xce\xba\xe1", "\xce\xba\xe1\xbd", "\xce\xba\xe1\xbd\xb9\xcf", // 6.6: prefixes
	"\x00", "\u0080", "\u0800", "\U00010000", // 6.7: the first code point of each length
	"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", // 6.8: of invalid lengths
	"\x7f", "\u07ff", "\uffff", "\U0010ffff", "\xf7\xbf\xbf\xbf", // 6.9: the last code point of each length
	"\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf", // 6.10
	"\ud7ff", "\ue000", "\ufffd", "\xf4\x90\x80\x80", // 6.11: beside the surrogates, and beyond the last
	"\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80\xbf\x80\xbf", // 6.12: continuation bytes
	"\xc0 \xc1 \xc2 ", "\xe0 \xe1 ", "\xf0 \xf1 ", "\xf8 \xf9 ", "\xfc ", // 6.13: first bytes
	"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xdf", "\xef\xbf", "\xf7\xbf\xbf", // 6.14: the last byte is missing
	"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80", // 6.15
	"\xfe", "\xff", "\xfe\xfe\xff\xff", // 6.16: impossible bytes
	"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", // 6.17: overlong
	"\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", // 6.18
	"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", // 6.19: overlong zero
	"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbf\xbf", // 6.20: single surrogates
	"\xed\xa0\x80\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf", // 6.21: surrogate pairs
	"\ufffe", "\uffff", "\U0001fffe", "\U0001ffff", "\U0010fffe", // 6.22: non-characters
	"\ufffd", // 6.23
}

// Autobahn 7: close frames.
func TestClosingFrames(t *testing.T) {
	r := newEchoRelay(t)
	hello, bye := wiretest.Text("Hello World!"), wiretest.CloseFrame(1000, "")
	r.exchange("7.1.1 after a message", frameCase{send: []wiretest.Frame{hello, bye}, echo: []wiretest.Frame{hello}, code: 1000})
	r.exchange("7.1.2 twice", frameCase{send: []wiretest.Frame{bye, bye}, code: 1000})
	r.exchange("7.1.3 and a ping", frameCase{send: []wiretest.Frame{bye, wiretest.Ping("")}, code: 1000})
	r.exchange("7.1.4 and a message", frameCase{send: []wiretest.Frame{bye, hello}, code: 1000})
	r.exchange("7.1.5 within a message", frameCase{send: []wiretest.Frame{wiretest.FirstText("fragment1"), bye, wiretest.LastContinuation("fragment2")}, code: 1000})
	long := wiretest.Text(strings.Repeat("*", 256<<10))
	r.exchange("7.1.6 after a long one", frameCase{send: []wiretest.Frame{long, hello, bye, wiretest.Ping("")}, echo: []wiretest.Frame{long, hello}, code: 1000})
	r.exchange("7.3.1 without a code", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|wiretest.OpClose, "")}, none: true})
	r.exchange("7.3.2 half a code", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|wiretest.OpClose, "\x03")}, none: true})
	r.exchange("7.3.4 with a reason", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, "H\u00e4llo")}, code: 1000})
	r.exchange("7.3.5 longest", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, strings.Repeat("*", 123))}, code: 1000})
	r.exchange("7.3.6 too long", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, strings.Repeat("*", 124))}, code: 1002})
	r.exchange("7.5.1 no UTF-8", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, "\u03ba\xed\xa0\x80edited")}, code: 1002})
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999} {
		r.exchange(fmt.Sprintf("7.7 %d", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "as I like")}, code: code})
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1014, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		r.exchange(fmt.Sprintf("7.9 %d", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "")}, code: 1002})
		r.exchange(fmt.Sprintf("7.9 %d with a reason", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "reason")}, code: 1002})
	}
}
