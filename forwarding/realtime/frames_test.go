package realtime_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// The cases of the Autobahn test suite, by its numbers, sent through a tunnel and a session to an engine that echoes. These
// results differ on purpose:
//
//   - Messages are reassembled: the same message comes back, not the same frames.
//   - When the client breaks the protocol or closes, the session ends at once, and echoes on their way may be lost: the engine
//     has a quarter of a second to close.
//   - A close frame with a payload of one byte counts as one without a code (7.3.2), and a length may take more bytes than it
//     needs.
//   - Compression is not negotiated (12, 13).
//   - Sizes are those that a relay meets, not those that fill a machine (9).
func TestFrames(t *testing.T) {
	r := newEchoRelay(t)
	framing(r)
	controlFrames(r)
	reservedBits(r)
	fragments(r)
	limits(r)
}

// echoes is a case in which every message comes back.
func echoes(frames ...wiretest.Frame) frameCase { return frameCase{send: frames, echo: frames} }

// chopped has n bytes written at once.
func (c frameCase) chopped(n int) frameCase {
	c.chop = n
	return c
}

// framing is 1 and 10: payloads of all sizes that are framed differently.
func framing(r *echoRelay) {
	for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536} {
		body := strings.Repeat("*", n)
		r.exchange(fmt.Sprintf("1.1 text of %d", n), echoes(wiretest.Text(body)))
		r.exchange(fmt.Sprintf("1.2 binary of %d", n), echoes(wiretest.Binary(strings.Repeat("\xfe", n))))
		r.exchange(fmt.Sprintf("1.x both of %d, chopped", n), echoes(wiretest.Text(body), wiretest.Binary(body)).chopped(997))
	}
	long := strings.Repeat("*", 65536)
	r.exchange("10.1.1 in frames of 1300", frameCase{send: cut(long, 1300), echo: []wiretest.Frame{wiretest.Text(long)}})
}

// cut makes a text message of frames of n bytes.
func cut(s string, n int) (frames []wiretest.Frame) {
	for piece := range slices.Chunk([]byte(s), n) {
		frames = append(frames, wiretest.Continuation(string(piece)))
	}
	frames[0].Head |= wiretest.OpText
	frames[len(frames)-1].Head |= wiretest.FinBit
	return frames
}

// controlFrames is 2: pings and pongs.
func controlFrames(r *echoRelay) {
	pings := func(payloads ...string) frameCase {
		var c frameCase
		for _, p := range payloads {
			c.send = append(c.send, wiretest.Ping(p))
		}
		c.pongs = payloads
		return c
	}
	full := strings.Repeat("\xfe", 125)
	r.exchange("2.1 empty", pings(""))
	r.exchange("2.2 text", pings("Hello, world!"))
	r.exchange("2.3 binary", pings("\x00\xff\xfe\xfd\xfc\xfb\x00\xff"))
	r.exchange("2.4 longest", pings(full))
	r.exchange("2.5 too long", frameCase{send: []wiretest.Frame{wiretest.Ping(full + "x")}, code: 1002})
	r.exchange("2.6 byte by byte", pings(full).chopped(1))
	r.exchange("2.7 an unsolicited pong", frameCase{send: []wiretest.Frame{wiretest.Pong("")}})
	r.exchange("2.8 with a payload", frameCase{send: []wiretest.Frame{wiretest.Pong("unsolicited")}})
	r.exchange("2.9 and a ping", frameCase{send: []wiretest.Frame{wiretest.Pong("unsolicited"), wiretest.Ping("ping")}, pongs: []string{"ping"}})
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("payload-%d", i))
	}
	r.exchange("2.10 ten", pings(ten...))
	r.exchange("2.11 ten, byte by byte", pings(ten...).chopped(1))
}

// reservedBits is 3 and 4: reserved bits and opcodes are refused in every frame.
func reservedBits(r *echoRelay) {
	hello := wiretest.Text("Hello, world!")
	for bits := byte(wiretest.Rsv3); bits < wiretest.FinBit; bits += wiretest.Rsv3 {
		name := fmt.Sprintf("3 bits %#x ", bits)
		bad := wiretest.Text("*")
		bad.Head |= bits
		r.exchange(name+"alone", frameCase{send: []wiretest.Frame{bad}, code: 1002})
		r.exchange(name+"behind", frameCase{send: []wiretest.Frame{hello, bad, wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002})
		r.exchange(name+"byte by byte", frameCase{send: []wiretest.Frame{hello, bad, wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002, chop: 1})
	}
	for name, bad := range map[string]wiretest.Frame{"binary": wiretest.Binary("\xff"), "ping": wiretest.Ping(""), "close": wiretest.CloseFrame(1000, "")} {
		bad.Head |= wiretest.Rsv1 | wiretest.Rsv2
		r.exchange("3 bits in "+name, frameCase{send: []wiretest.Frame{bad}, code: 1002})
	}
	for _, opcode := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		name, payload := fmt.Sprintf("4 opcode %d ", opcode), "reserved opcode payload"
		r.exchange(name+"empty", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|opcode, "")}, code: 1002})
		r.exchange(name+"payload", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.FinBit|opcode, payload)}, code: 1002})
		r.exchange(name+"behind", frameCase{send: []wiretest.Frame{hello, wiretest.RawFrame(wiretest.FinBit|opcode, payload), wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002})
		r.exchange(name+"byte by byte", frameCase{send: []wiretest.Frame{hello, wiretest.RawFrame(wiretest.FinBit|opcode, ""), wiretest.Ping("")}, echo: []wiretest.Frame{hello}, code: 1002, chop: 1})
	}
}

// fragments is 5: fragmented messages.
func fragments(r *echoRelay) {
	both, one := []wiretest.Frame{wiretest.Text("fragment1fragment2")}, wiretest.FirstText("fragment1")
	r.exchange("5.1 of a ping", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpPing, "fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	r.exchange("5.2 of a pong", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpPong, "fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	for _, chop := range []int{0, 1} {
		name := fmt.Sprintf(", written %d", chop)
		r.exchange("5.3 two"+name, frameCase{send: []wiretest.Frame{one, wiretest.LastContinuation("fragment2")}, echo: both, chop: chop})
		r.exchange("5.6 a ping between"+name, frameCase{
			send: []wiretest.Frame{one, wiretest.Ping("ping payload"), wiretest.LastContinuation("fragment2")}, echo: both, pongs: []string{"ping payload"}, chop: chop,
		})
		r.exchange("5.9 a last fragment without a first"+name, frameCase{send: []wiretest.Frame{wiretest.LastContinuation("non-continuation"), wiretest.Text("Hello")}, code: 1002, chop: chop})
		r.exchange("5.12 a fragment without a first"+name, frameCase{send: []wiretest.Frame{wiretest.Continuation("non-continuation"), wiretest.Text("Hello")}, code: 1002, chop: chop})
		r.exchange("5.18 text in text"+name, frameCase{send: []wiretest.Frame{one, wiretest.FirstText("fragment2")}, code: 1002, chop: chop})
		r.exchange("5.18 a whole text in text"+name, frameCase{send: []wiretest.Frame{one, wiretest.Text("fragment2")}, code: 1002, chop: chop})
	}
	r.exchange("5.15 a fragment too many", frameCase{send: []wiretest.Frame{one, wiretest.LastContinuation("fragment2"), wiretest.Continuation("fragment3"), wiretest.Text("4")}, echo: both, code: 1002})
	r.exchange("5.16 no first fragment", frameCase{send: []wiretest.Frame{wiretest.Continuation("fragment1"), wiretest.LastContinuation("fragment2")}, code: 1002})
	r.exchange("5.19 five and two pings", frameCase{
		send:  []wiretest.Frame{one, wiretest.Continuation("fragment2"), wiretest.Ping("ping 1"), wiretest.Continuation("fragment3"), wiretest.Ping("ping 2"), wiretest.Continuation("fragment4"), wiretest.LastContinuation("fragment5")},
		echo:  []wiretest.Frame{wiretest.Text("fragment1fragment2fragment3fragment4fragment5")},
		pongs: []string{"ping 1", "ping 2"},
	})
	r.exchange("5.x empty ones", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.Continuation("x"), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("x")}})
	r.exchange("5.x all empty", frameCase{send: []wiretest.Frame{wiretest.FirstText(""), wiretest.Continuation(""), wiretest.LastContinuation("")}, echo: []wiretest.Frame{wiretest.Text("")}})
	r.exchange("5.x of binary", frameCase{send: []wiretest.Frame{wiretest.RawFrame(wiretest.OpBinary, "\xff"), wiretest.Continuation("\xfe"), wiretest.LastContinuation("\x00")}, echo: []wiretest.Frame{wiretest.Binary("\xff\xfe\x00")}})
}

// limits is 9: sizes.
func limits(r *echoRelay) {
	for _, n := range []int{64 << 10, 256 << 10, testkit.AtScale(1<<20, 4<<20)} {
		body := strings.Repeat("\u00fc*", n/3)
		name := fmt.Sprintf(" of %d bytes", n)
		r.exchange("9.1 text"+name, echoes(wiretest.Text(body)))
		r.exchange("9.2 binary"+name, echoes(wiretest.Binary(body)))
	}
	body := strings.Repeat("\u00fc*", testkit.AtScale(256<<10, 1<<20)/3)
	for _, n := range []int{64, 256, 1 << 10, 16 << 10, 256 << 10} {
		r.exchange(fmt.Sprintf("9.3 in frames of %d", n), frameCase{send: cut(body, n), echo: []wiretest.Frame{wiretest.Text(body)}})
		r.exchange(fmt.Sprintf("9.5 in writes of %d", n), echoes(wiretest.Text(body)).chopped(n))
	}
	for _, n := range []int{0, 16, 64, 256, 1024, 4096} {
		var many []wiretest.Frame
		for range testkit.AtScale(100, 1000) {
			many = append(many, wiretest.Text(strings.Repeat("*", n)))
		}
		r.exchange(fmt.Sprintf("9.7 many of %d", n), echoes(many...))
	}
	huge := strings.Repeat("*", 16<<20)
	r.exchange("9.x too long", frameCase{send: []wiretest.Frame{wiretest.Binary(huge + "*")}, code: 1009})
	if !testkit.Soak() {
		return
	}
	r.exchange("9.x longest", echoes(wiretest.Binary(huge)))
	tooLong := cut(huge+"*", 1<<20)
	tooLong[16] = wiretest.Continuation("*") // not the last fragment
	r.exchange("9.x too long in pieces", frameCase{send: tooLong, code: 1009})
}
