package onebox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/testkit"
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
	f.watch(2)
	f.framing()
	f.controlFrames()
	f.reservedBits()
	f.fragments()
	f.limits()
}

// echoes is a case of which everything comes back.
func echoes(frames ...frame) frameCase { return frameCase{send: frames, echo: frames} }

// chopped writes so many bytes at once.
func (c frameCase) chopped(n int) frameCase {
	c.chop = n
	return c
}

// framing is 1, and 10: payloads of all sizes that differ in how they are framed.
func (f *testFleet) framing() {
	for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536} {
		body := strings.Repeat("*", n)
		f.exchange(fmt.Sprintf("1.1 text of %d", n), echoes(text(body)))
		f.exchange(fmt.Sprintf("1.2 binary of %d", n), echoes(binaryOf(strings.Repeat("\xfe", n))))
		f.exchange(fmt.Sprintf("1.x both of %d, chopped", n), echoes(text(body), binaryOf(body)).chopped(997))
	}
	long := strings.Repeat("*", 65536)
	f.exchange("10.1.1 in frames of 1300", frameCase{send: cut(long, 1300), echo: []frame{text(long)}})
}

// cut makes frames of so many bytes of a text.
func cut(s string, n int) (frames []frame) {
	for piece := range slices.Chunk([]byte(s), n) {
		frames = append(frames, more(string(piece)))
	}
	frames[0].head |= opText
	frames[len(frames)-1].head |= finBit
	return frames
}

// controlFrames is 2.
func (f *testFleet) controlFrames() {
	pings := func(payloads ...string) frameCase {
		var c frameCase
		for _, p := range payloads {
			c.send = append(c.send, ping(p))
		}
		c.pongs = payloads
		return c
	}
	full := strings.Repeat("\xfe", 125)
	f.exchange("2.1 empty", pings(""))
	f.exchange("2.2 text", pings("Hello, world!"))
	f.exchange("2.3 binary", pings("\x00\xff\xfe\xfd\xfc\xfb\x00\xff"))
	f.exchange("2.4 as long as may be", pings(full))
	f.exchange("2.5 too long", frameCase{send: []frame{ping(full + "x")}, code: 1002})
	f.exchange("2.6 byte by byte", pings(full).chopped(1))
	f.exchange("2.7 a pong that nobody asked for", frameCase{send: []frame{pong("")}})
	f.exchange("2.8 with a payload", frameCase{send: []frame{pong("unsolicited")}})
	f.exchange("2.9 and a ping", frameCase{send: []frame{pong("unsolicited"), ping("ping")}, pongs: []string{"ping"}})
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("payload-%d", i))
	}
	f.exchange("2.10 ten", pings(ten...))
	f.exchange("2.11 ten, byte by byte", pings(ten...).chopped(1))
}

// reservedBits is 3 and 4: what has no meaning is refused, in whatever frame.
func (f *testFleet) reservedBits() {
	hello := text("Hello, world!")
	for bits := byte(rsv3); bits < finBit; bits += rsv3 {
		name := fmt.Sprintf("3 bits %#x ", bits)
		bad := text("*")
		bad.head |= bits
		f.exchange(name+"alone", frameCase{send: []frame{bad}, code: 1002})
		f.exchange(name+"behind", frameCase{send: []frame{hello, bad, ping("")}, echo: []frame{hello}, code: 1002})
		f.exchange(name+"byte by byte", frameCase{send: []frame{hello, bad, ping("")}, echo: []frame{hello}, code: 1002, chop: 1})
	}
	for name, bad := range map[string]frame{"binary": binaryOf("\xff"), "ping": ping(""), "close": closing(1000, "")} {
		bad.head |= rsv1 | rsv2
		f.exchange("3 bits in "+name, frameCase{send: []frame{bad}, code: 1002})
	}
	for _, opcode := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		name, payload := fmt.Sprintf("4 opcode %d ", opcode), "reserved opcode payload"
		f.exchange(name+"empty", frameCase{send: []frame{{finBit | opcode, ""}}, code: 1002})
		f.exchange(name+"payload", frameCase{send: []frame{{finBit | opcode, payload}}, code: 1002})
		f.exchange(name+"behind", frameCase{send: []frame{hello, {finBit | opcode, payload}, ping("")}, echo: []frame{hello}, code: 1002})
		f.exchange(name+"byte by byte", frameCase{send: []frame{hello, {finBit | opcode, ""}, ping("")}, echo: []frame{hello}, code: 1002, chop: 1})
	}
}

// fragments is 5.
func (f *testFleet) fragments() {
	both, one := []frame{text("fragment1fragment2")}, begin("fragment1")
	f.exchange("5.1 of a ping", frameCase{send: []frame{{opPing, "fragment1"}, last("fragment2")}, code: 1002})
	f.exchange("5.2 of a pong", frameCase{send: []frame{{opPong, "fragment1"}, last("fragment2")}, code: 1002})
	for _, chop := range []int{0, 1} {
		name := fmt.Sprintf(", written %d", chop)
		f.exchange("5.3 two"+name, frameCase{send: []frame{one, last("fragment2")}, echo: both, chop: chop})
		f.exchange("5.6 a ping between"+name, frameCase{
			send: []frame{one, ping("ping payload"), last("fragment2")}, echo: both, pongs: []string{"ping payload"}, chop: chop,
		})
		f.exchange("5.9 a last one of nothing"+name, frameCase{send: []frame{last("non-continuation"), text("Hello")}, code: 1002, chop: chop})
		f.exchange("5.12 one of nothing"+name, frameCase{send: []frame{more("non-continuation"), text("Hello")}, code: 1002, chop: chop})
		f.exchange("5.18 text in text"+name, frameCase{send: []frame{one, begin("fragment2")}, code: 1002, chop: chop})
		f.exchange("5.18 a whole text in text"+name, frameCase{send: []frame{one, text("fragment2")}, code: 1002, chop: chop})
	}
	f.exchange("5.15 one too many", frameCase{send: []frame{one, last("fragment2"), more("fragment3"), text("4")}, echo: both, code: 1002})
	f.exchange("5.16 nothing begins it", frameCase{send: []frame{more("fragment1"), last("fragment2")}, code: 1002})
	f.exchange("5.19 five and two pings", frameCase{
		send:  []frame{one, more("fragment2"), ping("ping 1"), more("fragment3"), ping("ping 2"), more("fragment4"), last("fragment5")},
		echo:  []frame{text("fragment1fragment2fragment3fragment4fragment5")},
		pongs: []string{"ping 1", "ping 2"},
	})
	f.exchange("5.x empty ones", frameCase{send: []frame{begin(""), more(""), more("x"), more(""), last("")}, echo: []frame{text("x")}})
	f.exchange("5.x all empty", frameCase{send: []frame{begin(""), more(""), last("")}, echo: []frame{text("")}})
	f.exchange("5.x of binary", frameCase{send: []frame{{opBinary, "\xff"}, more("\xfe"), last("\x00")}, echo: []frame{binaryOf("\xff\xfe\x00")}})
}

// limits is 9.
func (f *testFleet) limits() {
	for _, n := range []int{64 << 10, 256 << 10, testkit.AtScale(1<<20, 4<<20)} {
		body := strings.Repeat("\u00fc*", n/3)
		name := fmt.Sprintf(" of %d bytes", n)
		f.exchange("9.1 text"+name, echoes(text(body)))
		f.exchange("9.2 binary"+name, echoes(binaryOf(body)))
	}
	body := strings.Repeat("\u00fc*", testkit.AtScale(256<<10, 1<<20)/3)
	for _, n := range []int{64, 256, 1 << 10, 16 << 10, 256 << 10} {
		f.exchange(fmt.Sprintf("9.3 in frames of %d", n), frameCase{send: cut(body, n), echo: []frame{text(body)}})
		f.exchange(fmt.Sprintf("9.5 in writes of %d", n), echoes(text(body)).chopped(n))
	}
	for _, n := range []int{0, 16, 64, 256, 1024, 4096} {
		var many []frame
		for range testkit.AtScale(100, 1000) {
			many = append(many, text(strings.Repeat("*", n)))
		}
		f.exchange(fmt.Sprintf("9.7 many of %d", n), echoes(many...))
	}
	huge := strings.Repeat("*", 16<<20)
	f.exchange("9.x too long", frameCase{send: []frame{binaryOf(huge + "*")}, code: 1009})
	if !testkit.Soak() {
		return
	}
	f.exchange("9.x as long as may be", echoes(binaryOf(huge)))
	tooLong := cut(huge+"*", 1<<20)
	tooLong[16] = more("*") // and not the last
	f.exchange("9.x too long in pieces", frameCase{send: tooLong, code: 1009})
}
