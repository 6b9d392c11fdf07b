package simengine

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

const dimensions = 32

// embeddings is /v1/embeddings. Equal inputs have equal vectors.
func embeddings(e *Engine, c *call) answer {
	type datum struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	n := min(cmp.Or(c.options.dimensions, dimensions), 1<<14)
	data := make([]datum, len(c.inputs))
	for i, in := range c.inputs {
		v := vector(in.last, n)
		data[i] = datum{Object: "embedding", Index: i, Embedding: v}
		if c.options.base64 {
			data[i].Embedding = base64Vector(v)
		}
	}
	return answer{wholeType: "application/json", whole: func() []byte {
		return marshal(struct {
			Object string  `json:"object"`
			Data   []datum `json:"data"`
			Model  string  `json:"model"`
			Usage  *usage  `json:"usage"`
		}{"list", data, c.model, c.usageOf(0)})
	}}
}

// vector returns a unit vector that depends on s only.
func vector(s string, n int) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	rnd := rand.New(rand.NewPCG(h.Sum64(), 0))
	v, sum := make([]float64, max(n, 1)), 0.0
	for i := range v {
		v[i] = rnd.NormFloat64()
		sum += v[i] * v[i]
	}
	unit := make([]float32, len(v))
	for i := range v {
		unit[i] = float32(v[i] / math.Sqrt(sum))
	}
	return unit
}

// base64Vector is the form in which SDKs ask for vectors: little-endian float32 in base64.
func base64Vector(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// rerank is /v1/rerank: earlier documents score higher.
func rerank(e *Engine, c *call) answer {
	type result struct {
		Index int     `json:"index"`
		Score float64 `json:"relevance_score"`
	}
	results := make([]result, len(c.options.documents))
	for i := range results {
		results[i] = result{Index: i, Score: 1 / float64(i+1)}
	}
	return answer{wholeType: "application/json", whole: func() []byte {
		return marshal(struct {
			ID      string   `json:"id"`
			Model   string   `json:"model"`
			Results []result `json:"results"`
			Usage   *usage   `json:"usage"`
		}{"rerank-" + c.id, c.model, results, c.usageOf(0)})
	}}
}
