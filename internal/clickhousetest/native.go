package clickhousetest

import (
	"bytes"
	"errors"
	"io"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// withRevision returns blocks of the format Native in the form of the protocol of clients, in which blocks and columns say more.
func withRevision(native []byte) ([]byte, error) {
	var answer chproto.Buffer
	err := blocks(native, func(b *proto.Block) error { return b.Encode(&answer, clickhouse.ClientTCPProtocolVersion) })
	return answer.Buf, err
}

// texts returns the only column of blocks.
func texts(native []byte) ([]string, error) {
	var texts []string
	err := blocks(native, func(b *proto.Block) error {
		for i := range b.Rows() {
			var text string
			if err := b.Columns[0].ScanRow(&text, i); err != nil {
				return err
			}
			texts = append(texts, text)
		}
		return nil
	})
	return texts, err
}

func blocks(native []byte, do func(*proto.Block) error) error {
	reader := chproto.NewReader(bytes.NewReader(native))
	for {
		b := proto.NewBlock()
		if err := b.Decode(reader, 0); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
	}
}
