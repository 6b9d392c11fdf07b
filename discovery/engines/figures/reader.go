package figures

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLine   = 64 << 10 // bytes of a line that is read; longer ones say nothing
	maxSeries = 4096     // of those that count, and of adapters
)

// Reader reads a page in pieces. The zero value is ready. It is not safe for concurrent use.
type Reader struct {
	rest     []byte // of the last piece, without the end of its line
	skipping bool   // up to the end of a line that is too long
	series   map[seriesKey]float64
	loras    []lora
	seed     maphash.Seed
}

// seriesKey stands for the series of one source that count once.
type seriesKey struct {
	source int
	labels uint64
}

// Write reads a piece of the page. It never fails.
func (r *Reader) Write(piece []byte) (int, error) {
	size := len(piece)
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			r.keep(piece)
			break
		}
		line := piece[:end]
		if len(r.rest) > 0 {
			r.keep(line)
			line = r.rest
		}
		if !r.skipping {
			r.line(line)
		}
		r.rest, r.skipping, piece = r.rest[:0], false, piece[end+1:]
	}
	return size, nil
}

// keep keeps the beginning of a line, unless it is too long.
func (r *Reader) keep(part []byte) {
	if r.skipping = r.skipping || len(r.rest)+len(part) > maxLine; r.skipping {
		r.rest = r.rest[:0]
		return
	}
	r.rest = append(r.rest, part...)
}

// line reads one line.
func (r *Reader) line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' || len(line) > maxLine {
		return
	}
	end := bytes.IndexAny(line, "{ \t")
	if end <= 0 {
		return
	}
	name := line[:end]
	if at, counts := byMetric[string(name)]; counts {
		r.count(at, line[end:])
		return
	}
	if isLoRA(name) {
		r.readLoRA(line[end:])
	}
}

// count reads a series of a metric that some sources have, from behind its name.
func (r *Reader) count(at []int, text []byte) {
	labels, text, ok := cutLabels(text)
	if !ok {
		return
	}
	n, ok := number(text)
	if !ok {
		return
	}
	for _, i := range at {
		s := &sources[i]
		if s.label != "" && string(labelOf(labels, s.label)) != s.value || s.field.ratio() && n > 1 {
			continue
		}
		if s.metric == cacheConfig {
			var known bool
			if n, known = cacheSize(labels); !known {
				continue
			}
		}
		r.add(seriesKey{i, r.hash(labels)}, n)
	}
}

// cacheSize returns how many tokens the cache has room for that the labels describe. Without blocks of its own it says "None".
func cacheSize(labels []byte) (tokens float64, known bool) {
	blocks, knowsBlocks := number(labelOf(labels, "num_gpu_blocks"))
	size, knowsSize := number(labelOf(labels, "block_size"))
	tokens = blocks * size
	return tokens, knowsBlocks && knowsSize && tokens > 0 && tokens <= math.MaxInt64/1024
}

// add notes a series; of several that differ in the rank of the process alone, the greatest.
func (r *Reader) add(k seriesKey, n float64) {
	known, found := r.series[k]
	if !found && len(r.series) >= maxSeries {
		return
	}
	if r.series == nil {
		r.series = map[seriesKey]float64{}
	}
	r.series[k] = max(known, n)
}

// hash is the same for series of processes that report the same, in whatever order their labels are.
func (r *Reader) hash(labels []byte) (sum uint64) {
	if len(labels) == 0 {
		return 0
	}
	if r.seed == (maphash.Seed{}) {
		r.seed = maphash.MakeSeed()
	}
	for labels != nil {
		var l label
		if l, labels = nextLabel(labels); l.name == nil || slices.Contains(rankLabels, string(l.name)) {
			continue
		}
		var h maphash.Hash
		h.SetSeed(r.seed)
		_, _ = h.Write(l.name)
		_ = h.WriteByte('=')
		_, _ = h.Write(l.value)
		sum += h.Sum64()
	}
	return sum
}

// number reads the value of a series, which a time may follow. Negative and infinite values say nothing.
func number(text []byte) (float64, bool) {
	text = bytes.TrimLeft(text, " \t")
	if end := bytes.IndexAny(text, " \t"); end >= 0 {
		text = text[:end]
	}
	if len(text) > 64 {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil && n >= 0 && n <= math.MaxInt64/1024
}

// Figures returns what the page says, as far as it has been read.
func (r *Reader) Figures() Figures {
	if len(r.rest) > 0 && !r.skipping {
		r.line(r.rest) // the last line of a page may lack its end
		r.rest = r.rest[:0]
	}
	v := r.values()
	f := Figures{
		Running: v[running], Waiting: v[waiting], KVCache: v[kvCache],
		PrefixQueries: v[prefixQueries], PrefixHits: v[prefixHits], PrefixRate: v[prefixRate],
		CacheTokens: v[cacheTokens], Adapters: r.adapters(),
	}
	if used, all := v[kvUsed], v[kvAll]; !f.KVCache.Known && used.Known && all.N > 0 {
		f.KVCache = Value{min(used.N/all.N, 1), true}
	}
	if !f.PrefixQueries.Known || !f.PrefixHits.Known || f.PrefixHits.N > f.PrefixQueries.N {
		f.PrefixQueries, f.PrefixHits = Value{}, Value{} // one without the other says nothing
	}
	return f
}

// values returns each field from the series of its first source.
func (r *Reader) values() (v [fields]Value) {
	var all [fields][maxSources]Value
	for k, n := range r.series {
		s := &sources[k.source]
		known := &all[s.field][s.rank]
		known.Known = true
		if s.field.ratio() {
			known.N = max(known.N, n)
		} else {
			known.N += n
		}
	}
	for f := range all {
		for _, known := range all[f] {
			if known.Known {
				v[f] = known
				break
			}
		}
	}
	return v
}

// lora is a series of vLLM: each set of adapters is in the labels of one, and its value is when that was so.
//
//	vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.7e+09
type lora struct {
	names []string
	at    float64
}

// sameScrape is how much older than the newest a series of adapters may be, in seconds: each rank of a data-parallel server writes its own.
const sameScrape = 10

func isLoRA(name []byte) bool {
	switch string(name) {
	case "vllm:lora_requests_info", "vllm_lora_requests_info", "ray_vllm_lora_requests_info":
		return true
	}
	return false
}

func (r *Reader) readLoRA(text []byte) {
	labels, text, ok := cutLabels(text)
	at, known := number(text)
	if !ok || !known || len(r.loras) >= maxSeries {
		return
	}
	l := lora{at: at}
	for _, key := range [...]string{"running_lora_adapters", "waiting_lora_adapters"} {
		for _, name := range strings.Split(unescaped(labelOf(labels, key)), ",") {
			if name = strings.TrimSpace(name); name != "" {
				l.names = append(l.names, name)
			}
		}
	}
	r.loras = append(r.loras, l)
}

// adapters returns those of the newest series, sorted; nil if there is none.
func (r *Reader) adapters() []string {
	if len(r.loras) == 0 {
		return nil
	}
	newest, names := 0.0, []string{}
	for _, l := range r.loras {
		newest = max(newest, l.at)
	}
	for _, l := range r.loras {
		if l.at >= newest-sameScrape {
			names = append(names, l.names...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
