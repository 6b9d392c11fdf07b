package streams_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// These are the cases of the Autobahn test suite, sent through an entry and a colo to an engine that echoes. The numbers
// are its own. What differs from it, on purpose:
//
//   - A message is put together anew: what comes back is the same message, not the same frames.
//   - When a client breaks the protocol, or closes, the session ends at once, and echoes that are on their way may be lost:
//     an engine has a quarter of a second for its last words.
//   - A close frame with a payload of one byte is taken for one without a code (7.3.2), and so is a length that takes more
//     bytes than it needs.
//   - Compression is not agreed on (12, 13).
//
// Sizes are those that a relay may meet, not those that fill a machine (9).
func TestFrames(t *testing.T) {
	f := startEcho(t, 2)
	f.Watch(2)
	framing(f)
	controlFrames(f)
	reservedBits(f)
	fragments(f)
	limits(f)
}

// echoes is a case of which everything comes back.
func echoes(frames ...wiretest.Frame) frameCase { return frameCase{send: frames, echo: frames} }

// chopped writes so many bytes at once.
func (c frameCase) chopped(n int) frameCase {
	c.chop = n
	return c
}

// framing is 1, and 10: payloads of all sizes that differ in how they are framed.
func framing(f *fleettest.Fleet) {
	for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536} {
		body := strings.Repeat("*", n)
		exchange(f, fmt.Sprintf("1.1 text of %d", n), echoes(wiretest.Text(body)))
		exchange(f, fmt.Sprintf("1.2 binary of %d", n), echoes(wiretest.Binary(strings.Repeat("\xfe", n))))
		exchange(f, fmt.Sprintf("1.x both of %d, chopped", n), echoes(wiretest.Text(body), wiretest.Binary(body)).chopped(997))
	}
	long := strings.Repeat("*", 65536)
	exchange(f, "10.1.1 in frames of 1300", frameCase{send: cut(long, 1300), echo: []wiretest.Frame{wiretest.Text(long)}})
}

// cut makes frames of so many bytes of a text.
func cut(s string, n int) (frames []wiretest.Frame) {
	for piece := range slices.Chunk([]byte(s), n) {
		frames = append(frames, wiretest.Continuation(string(piece)))
	}
	frames[0].Head |= wiretest.OpText
	frames[len(frames)-1].Head |= wiretest.FinBit
	return frames
}

// controlFrames is 2.
func controlFrames(f *fleettest.Fleet) {
	pings := func(payloads ...string) frameCase {
		var c frameCase
		for _, p := range payloads {
			c.send = append(c.send, wiretest.Ping(p))
		}
		c.pongs = payloads
		return c
	}
	full := strings.Repeat("\xfe", 125)
	exchange(f, "2.1 empty", pings(""))
	exchange(f, "2.2 text", pings("Hello, world!"))
	exchange(f, "2.3 binary", pings("\x00\xff\xfe\xfd\xfc\xfb\x00\xff"))
	exchange(f, "2.4 as long as may be", pings(full))
	exchange(f, "2.5 too long", frameCase{send: []wiretest.Frame{wiretest.Ping(full + "x")}, code: 1002})
	exchange(f, "2.6 byte by byte", pings(full).chopped(1))
	exchange(f, "2.7 a pong that nobody asked for", frameCase{send: []wiretest.Frame{wiretest.Pong("")}})
	exchange(f, "2.8 with a payload", frameCase{send: []wiretest.Frame{wiretest.Pong("unsolicited")}})
	exchange(f, "2.9 and a ping", frameCase{send: []wiretest.Frame{wiretest.Pong("unsolicited"), wiretest.Ping("ping")}, pongs: []string{"ping"}})
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("payload-%d", i))
	}
	exchange(f, "2.10 ten", pings(ten...))
	exchange(f, "2.11 ten, byte by byte", pings(ten...).chopped(1))
}

// reservedBits is 3 and 4: what has no meaning is refused, in whatever frame.
func reservedBits(f *fleettest.Fleet) {
	hello := wiretest.Text("Hello, world!")
	for bits := byte(wiretest.Rsv3); bits < wiretest.FinBit; bits += wiretest.Rsv3 {
		name := fmt.Sprintf("3 bits %#x ", bits)
		bad := wiretest.Text("*")
		bad.Head |= bits
		exchange(f, name+"alone", frameCase{send: []wiretest.Frame{bad}, code: 1002})
		exchange(f, name+"behind", frameCase{send: []wiretest.Frame{hello, bad, wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002})
		exchange(f, name+"byte by byte", frameCase{send: []wiretest.Frame{hello, bad, wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002, chop: 1})
	}
	for name, bad := range map[string]wiretest.Frame{"binary": wiretest.Binary("\xff"), "ping": wiretest.Ping(""), "close": wiretest.CloseFrame(1000, "")} {
		bad.Head |= wiretest.Rsv1 | wiretest.Rsv2
		exchange(f, "3 bits in "+name, frameCase{send: []wiretest.Frame{bad}, code: 1002})
	}
	for _, opcode := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		name, payload := fmt.Sprintf("4 opcode %d ", opcode), "reserved opcode payload"
		exchange(f, name+"empty", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|opcode, "")}, code: 1002})
		exchange(f, name+"payload", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|opcode, payload)}, code: 1002})
		exchange(f, name+"behind", frameCase{send: []wiretest.Frame{hello, wiretest.RawFrame(wiretest.FinBit|opcode, payload), wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002})
		exchange(f, name+"byte by byte", frameCase{send: []wiretest.Frame{hello, wiretest.RawFrame(wiretest.FinBit|opcode, ""), wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002, chop: 1})
	}
}

// fragments is 5.
func fragments(f *fleettest.Fleet) {
	both, one := []wiretest.Frame{wiretest.Text("fragment1fragment2")}, wiretest.FirstText("fragment1")
	exchange(f, "5.1 of a ping", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpPing, "fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	exchange(f, "5.2 of a pong", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpPong, "fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	for _, chop := range []int{0, 1} {
		name := fmt.Sprintf(", written %d", chop)
		exchange(f, "5.3 two"+name, frameCase{send: []wiretest.Frame{one, wiretest.LastContinuation("fragment2")}, echo: both, chop: chop})
		exchange(f, "5.6 a ping between"+name, frameCase{
			send: []wiretest.Frame{one, wiretest.Ping("ping payload"), wiretest.LastContinuation("fragment2")}, echo: both, pongs: []string{"ping payload"}, chop: chop,
		})
		exchange(f, "5.9 a last one of nothing"+name, frameCase{send: []wiretest.Frame{wiretest.LastContinuation("non-continuation"), wiretest.Text("Hello")}, code: 1002, chop: chop})
		exchange(f, "5.12 one of nothing"+name, frameCase{send: []wiretest.Frame{wiretest.Continuation("non-continuation"), wiretest.Text("Hello")}, code: 1002, chop: chop})
		exchange(f, "5.18 text in text"+name, frameCase{send: []wiretest.Frame{one, wiretest.FirstText("fragment2")}, code: 1002, chop: chop})
		exchange(f, "5.18 a whole text in text"+name, frameCase{send: []wiretest.Frame{one, wiretest.Text("fragment2")}, code: 1002, chop: chop})
	}
	exchange(f, "5.15 one too many", frameCase{send: []wiretest.Frame{one, wiretest.LastContinuation("fragment2"), wiretest.Continuation("fragment3"), wiretest.Text("4")}, echo: both, code: 1002})
	exchange(f, "5.16 nothing begins it", frameCase{send: []wiretest.Frame{wiretest.Continuation("fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	exchange(f, "5.19 five and two pings", frameCase{
		send:  []wiretest.Frame{one, wiretest.Continuation("fragment2"), wiretest.Ping("ping 1"), wiretest.Continuation("fragment3"), wiretest.Ping("ping 2"), wiretest.Continuation("fragment4"), wiretest.LastContinuation("fragment5")},
		echo:  []wiretest.Frame{wiretest.Text("fragment1fragment2fragment3fragment4fragment5")},
		pongs: []string{"ping 1", "ping 2"},
	})
	exchange(f, "5.x empty ones", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.Continuation("x"), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("x")}})
	exchange(f, "5.x all empty", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("")}})
	exchange(f, "5.x of binary", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpBinary, "\xff"), wiretest.Continuation("\xfe"), wiretest.LastContinuation("\x00")}, echo: []wiretest.Frame{wiretest.Binary("\xff\xfe\x00")}})
}

// limits is 9.
func limits(f *fleettest.Fleet) {
	for _, n := range []int{64 << 10, 256 << 10, testkit.AtScale(1<<20, 4<<20)} {
		body := strings.Repeat("\u00fc*", n/3)
		name := fmt.Sprintf(" of %d bytes", n)
		exchange(f, "9.1 text"+name, echoes(wiretest.Text(body)))
		exchange(f, "9.2 binary"+name, echoes(wiretest.Binary(body)))
	}
	body := strings.Repeat("\u00fc*", testkit.AtScale(256<<10, 1<<20)/3)
	for _, n := range []int{64, 256, 1 << 10, 16 << 10, 256 << 10} {
		exchange(f, fmt.Sprintf("9.3 in frames of %d", n), frameCase{send: cut(body, n), echo: []wiretest.Frame{wiretest.Text(body)}})
		exchange(f, fmt.Sprintf("9.5 in writes of %d", n), echoes(wiretest.Text(body)).chopped(n))
	}
	for _, n := range []int{0, 16, 64, 256, 1024, 4096} {
		var many []wiretest.Frame
		for range testkit.AtScale(100, 1000) {
			many = append(many, wiretest.Text(strings.Repeat("*", n)))
		}
		exchange(f, fmt.Sprintf("9.7 many of %d", n), echoes(many...))
	}
	huge := strings.Repeat("*", 16<<20)
	exchange(f, "9.x too long", frameCase{send: []wiretest.Frame{wiretest.Binary(huge + "*")}, code: 1009})
	if !testkit.Soak() {
		return
	}
	exchange(f, "9.x as long as may be", echoes(wiretest.Binary(huge)))
	tooLong := cut(huge+"*", 1<<20)
	tooLong[16] = wiretest.Continuation("*") // and not the last
	exchange(f, "9.x too long in pieces", frameCase{send: tooLong, code: 1009})
}
