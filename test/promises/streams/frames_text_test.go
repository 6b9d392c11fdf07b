package streams_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"colonnade/internal/wiretest"
)

// TestFramesOfText is 6: what is UTF-8 passes, however it is cut, and what is not ends the session with 1007 as soon as
// that can be known.
func TestFramesOfText(t *testing.T) {
	t.Parallel()
	f := startEcho(t, 2)
	f.WatchShared(2)
	exchange(f, "6.1.1 empty", echoes(wiretest.Text("")))
	exchange(f, "6.1.2 three empty", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("")}})
	exchange(f, "6.1.3 empty around", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation("middle"), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("middle")}})
	for _, s := range utf8Cases {
		name := fmt.Sprintf("6 %.60q", s)
		c := echoes(wiretest.Text(s))
		if !utf8.ValidString(s) {
			c = frameCase{send: []wiretest.Frame{wiretest.Text(s)}, code: 1007}
		}
		exchange(f, name, c)
		if len(s) > 1 {
			c.send = cut(s, 1)
			exchange(f, name+" byte by byte", c)
		}
	}
	exchange(f, "6 binary is no text", echoes(wiretest.Binary("\xff\xed\xa0\x80")))
	// The rest never comes: it is known before.
	const good = "\u03ba\u1f79\u03c3\u03bc\u03b5"
	exchange(f, "6.4.1 fails fast", frameCase{send: []wiretest.Frame{wiretest.FirstText(good), wiretest.Continuation("\xf4\x90\x80\x80")}, code: 1007})
	exchange(f, "6.4.2 faster", frameCase{send: []wiretest.Frame{wiretest.FirstText(good + "\xf4"), wiretest.Continuation("\x90")}, code: 1007})
	exchange(f, "6.4.3 within a frame", frameCase{send: []wiretest.Frame{wiretest.Text(good + "\xf4\x90\x80\x80edited")}, code: 1007, chop: 6 + len(good) + 4})
	unfinished := wiretest.Text(good + "\xf4\x90" + strings.Repeat("x", 100)).Masked()
	exchange(f, "6.4.4 before the frame has come", frameCase{raw: unfinished[:6+len(good)+2], code: 1007})
}

// utf8Cases are what 6.2 to 6.23 send.
var utf8Cases = []string{
	"Hello-\u00b5@\u00df\u00f6\u00e4\u00fc\u00e0\u00e1-UTF-8!!",            // 6.2
	"\u03ba\u1f79\u03c3\u03bc\u03b5\xed\xa0\x80edited",                     // 6.3
	"\u03ba\u1f79\u03c3\u03bc\u03b5",                                       // 6.5
	"\xce", "\xce\xba\xe1", "\xce\xba\xe1\xbd", "\xce\xba\xe1\xbd\xb9\xcf", // 6.6: prefixes
	"\x00", "\u0080", "\u0800", "\U00010000", // 6.7: the first of each length
	"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", // 6.8: of lengths that there are not
	"\x7f", "\u07ff", "\uffff", "\U0010ffff", "\xf7\xbf\xbf\xbf", // 6.9: the last of each length
	"\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf", // 6.10
	"\ud7ff", "\ue000", "\ufffd", "\xf4\x90\x80\x80", // 6.11: at the borders
	"\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80\xbf\x80\xbf", // 6.12: what only goes on
	"\xc0 \xc1 \xc2 ", "\xe0 \xe1 ", "\xf0 \xf1 ", "\xf8 \xf9 ", "\xfc ", // 6.13: what only begins
	"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xdf", "\xef\xbf", "\xf7\xbf\xbf", // 6.14: the last byte is missing
	"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80", // 6.15
	"\xfe", "\xff", "\xfe\xfe\xff\xff", // 6.16: bytes that never are
	"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", // 6.17: longer than need be
	"\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", // 6.18
	"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", // 6.19: a long zero
	"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbf\xbf", // 6.20: halves of surrogates
	"\xed\xa0\x80\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf", // 6.21: both
	"\ufffe", "\uffff", "\U0001fffe", "\U0001ffff", "\U0010fffe", // 6.22: no characters, but UTF-8
	"\ufffd", // 6.23
}

// TestClosingFrames is 7.
func TestClosingFrames(t *testing.T) {
	f := startEcho(t, 2)
	f.Watch(2)
	hello, bye := wiretest.Text("Hello World!"), wiretest.CloseFrame(1000, "")
	exchange(f, "7.1.1 after a message", frameCase{send: []wiretest.Frame{hello, bye}, echo: []wiretest.Frame{hello}, code: 1000})
	exchange(f, "7.1.2 twice", frameCase{send: []wiretest.Frame{bye, bye}, code: 1000})
	exchange(f, "7.1.3 and a ping", frameCase{send: []wiretest.Frame{bye, wiretest.Ping("")}, code: 1000})
	exchange(f, "7.1.4 and a message", frameCase{send: []wiretest.Frame{bye, hello}, code: 1000})
	exchange(f, "7.1.5 within a message", frameCase{send: []wiretest.Frame{wiretest.FirstText("fragment1"), bye, wiretest.LastContinuation("fragment2")}, code: 1000})
	long := wiretest.Text(strings.Repeat("*", 256<<10))
	exchange(f, "7.1.6 after a long one", frameCase{send: []wiretest.Frame{long, hello, bye, wiretest.Ping("")}, echo: []wiretest.Frame{long, hello}, code: 1000})
	exchange(f, "7.3.1 without a code", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|wiretest.OpClose, "")}, none: true})
	exchange(f, "7.3.2 half a code", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|wiretest.OpClose, "\x03")}, none: true})
	exchange(f, "7.3.4 with a reason", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, "H\u00e4llo")}, code: 1000})
	exchange(f, "7.3.5 as long as may be", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, strings.Repeat("*", 123))}, code: 1000})
	exchange(f, "7.3.6 too long", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, strings.Repeat("*", 124))}, code: 1002})
	exchange(f, "7.5.1 no UTF-8", frameCase{send: []wiretest.Frame{wiretest.CloseFrame(1000, "\u03ba\xed\xa0\x80edited")}, code: 1002})
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999} {
		exchange(f, fmt.Sprintf("7.7 %d", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "as I like")}, code: code})
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1014, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		exchange(f, fmt.Sprintf("7.9 %d", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "")}, code: 1002})
		exchange(f, fmt.Sprintf("7.9 %d with a reason", code), frameCase{send: []wiretest.Frame{wiretest.CloseFrame(code, "reason")}, code: 1002})
	}
}
