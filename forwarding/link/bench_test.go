package link_test

import (
	"io"
	"sync"
	"testing"

	"colonnade/forwarding/link"
)

// BenchmarkExchange sends requests of 1 KiB, answered with 1.5 KB, over one link, many at once.
func BenchmarkExchange(b *testing.B) {
	answer := make([]byte, 1500)
	p := newPair(b, func(s *link.Stream) {
		_, _ = io.Copy(io.Discard, s)
		_, _ = s.Write(answer)
	})
	request := make([]byte, 1024)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		response := make([]byte, 1500)
		for pb.Next() {
			s, err := p.client.Open(request, true)
			if err != nil {
				b.Error(err)
				return
			}
			if !readFull(s, response) {
				b.Error("no response")
			}
			s.Finish()
		}
	})
}

// BenchmarkChunk passes chunks of 200 bytes on 150 streams, which are flushed together.
func BenchmarkChunk(b *testing.B) {
	const count = 150
	var flusher link.Flusher
	accepted := make(chan *link.Stream, count)
	end := make(chan struct{})
	p := newPairWith(b, func(c *link.Config) { c.Flusher = &flusher }, func(s *link.Stream) {
		accepted <- s
		<-end
	})
	defer close(end)
	var got sync.WaitGroup
	var streams []*link.Stream
	for range count {
		s := p.open(b, "x", true)
		buf := make([]byte, 4096)
		s.OnArrival(func() {
			for n, _ := s.TryRead(buf); n > 0; n -= 200 {
				got.Done()
			}
		})
		streams = append(streams, <-accepted)
	}
	chunk := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= count {
		round := min(left, count)
		got.Add(round)
		for _, s := range streams[:round] {
			_, _ = s.TryWrite(chunk)
		}
		flusher.Flush()
		got.Wait()
	}
}

// BenchmarkBulk sends 4 MiB on one stream.
func BenchmarkBulk(b *testing.B) {
	body := make([]byte, 4<<20)
	p := newPair(b, func(s *link.Stream) { _, _ = s.Write(body) })
	buf := make([]byte, 16<<10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s := p.open(b, "x", true)
		for n := 0; n < len(body); {
			got, err := s.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			n += got
		}
		s.Finish()
	}
}
