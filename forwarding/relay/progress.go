package relay

import (
	"net"
	"time"

	"colonnade/forwarding/hop"
)

// interimTimeout is how long a node may take for an interim answer: one that asked for them reads them.
const interimTimeout = time.Second

// WriteProgress tells the node behind client how its request waits, before any answer. It is for the goroutine that
// will answer. After an error nothing more can be said.
func WriteProgress(client net.Conn, p hop.Progress) error {
	if err := client.SetWriteDeadline(time.Now().Add(interimTimeout)); err != nil {
		return err
	}
	if _, err := client.Write([]byte("HTTP/1.1 102 Processing\r\n" + hop.HeaderProgress + ": " + p.String() + "\r\n\r\n")); err != nil {
		return err
	}
	return client.SetWriteDeadline(time.Time{}) // it would hold for the answer
}
