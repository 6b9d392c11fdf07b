package bench

import (
	"fmt"
	"image/png"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The size of a chart in points. It is drawn with 1350 × 750 pixels, half as many again as it is mostly read at.
const (
	chartWidth  vg.Length = 675
	chartHeight vg.Length = 375
	chartMargin vg.Length = 10
	barsWidth   vg.Length = 380 // of all bars of a chart together
)

const (
	chartDPI   = 144
	maxMarkers = 24 // points of a line up to which each gets a marker
)

// writePNG draws the chart. The order of the gateways decides their colours.
func (c *chart) writePNG(w io.Writer, gateways []gatewayInfo) error {
	canvas, err := c.draw(gateways)
	if err != nil {
		return fmt.Errorf("cannot draw the chart %q: %w", c.Name, err)
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return encoder.Encode(w, canvas.Image())
}

// draw draws the title and the axes, and the legend to the right of them, where it covers no data.
func (c *chart) draw(gateways []gatewayInfo) (*vgimg.Canvas, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(chartDPI))
	return canvas, c.drawOn(draw.New(canvas), gateways)
}

func (c *chart) drawOn(canvas draw.Canvas, gateways []gatewayInfo) error {
	d := &drawing{chart: c, plot: plot.New(), legend: plot.NewLegend(), styles: stylesOf(gateways)}
	d.legend.Top, d.legend.Left, d.legend.Padding = true, true, 4
	var err error
	switch c.Kind {
	case lineChart, cdfChart:
		err = d.addLines()
	case barChart:
		err = d.addBars()
	default:
		err = fmt.Errorf("unknown kind %q", c.Kind)
	}
	if err == nil {
		d.setRanges()
		err = d.addRefLines()
	}
	if err != nil {
		return err
	}
	d.setStyle()
	inner := draw.Crop(canvas, chartMargin, -chartMargin, chartMargin, -chartMargin)
	side := d.legend.Rectangle(inner).Size().X
	d.plot.Draw(draw.Crop(inner, 0, -side-2*chartMargin, 0, 0))
	d.legend.Draw(draw.Crop(inner, inner.Size().X-side, 0, 0, -3*chartMargin))
	return nil
}

// drawing is a chart while it is drawn.
type drawing struct {
	*chart
	plot   *plot.Plot
	legend plot.Legend
	styles map[string]seriesStyle
}

// setRanges sets the ranges of the axes by the values of the series.
func (d *drawing) setRanges() {
	setRange(&d.plot.X, d.X.Log)
	setRange(&d.plot.Y, d.Y.Log)
	if !d.Y.Log {
		d.plot.Y.Min = min(d.plot.Y.Min, 0) // a difference must look as large as it is
	}
	if d.percent() && d.plot.Y.Max > 50 {
		d.plot.Y.Max = max(d.plot.Y.Max, 100)
	}
}

func setRange(a *plot.Axis, log bool) {
	if math.IsInf(a.Min, 0) || math.IsInf(a.Max, 0) {
		a.Min, a.Max = 0, 1
	}
	a.Tick.Marker = plot.TickerFunc(linearTicks)
	if log {
		a.Scale, a.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
		if a.Min /= 1.1; a.Min <= 0 {
			a.Min = 1
		}
		a.Max = max(a.Max*1.1, 2*a.Min)
	} else if a.Min == a.Max {
		a.Max++
	}
}

// setStyle sets titles, fonts and colours.
func (d *drawing) setStyle() {
	p := d.plot
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.Title, d.X.title(), d.Y.title()
	p.Title.TextStyle.Font, p.Title.Padding = boldSans(13), chartMargin
	d.legend.TextStyle.Font = sans(10)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(11), sans(10)
		a.LineStyle.Color, a.Tick.LineStyle.Color = grey, grey
		a.Padding = 0
	}
	switch {
	case d.Kind == barChart && len(d.X.Names) > 0:
		p.NominalX(d.X.Names...)
	case d.Kind == lineChart && !d.X.Log && len(d.Series) > 0 && len(d.Series[0].X) <= 9:
		p.X.Tick.Marker = ticksAt(d.Series[0].X)
	case !d.X.Log:
		p.X.Min = min(p.X.Min, 0)
	}
}

// percent says whether the values of the y axis are shares that are drawn as per cent.
func (d *drawing) percent() bool { return d.Y.Unit == "%" || d.Kind == cdfChart }

// y is a value as it is drawn.
func (d *drawing) y(v Value) float64 {
	if d.percent() {
		return 100 * float64(v)
	}
	return float64(v)
}

// addLines draws a line for each series, the judged gateway's thick one below the others, so that it hides none.
func (d *drawing) addLines() error {
	d.plot.Add(faintGrid())
	var below, above []plot.Plotter
	for _, s := range d.Series {
		style := d.styleOf(s)
		var thumbnails []plot.Thumbnailer
		for _, points := range d.segments(s) {
			line, markers, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.LineStyle, markers.GlyphStyle = style.line(s.Dashed), style.marker()
			shown := []plot.Plotter{line}
			thumbnails = []plot.Thumbnailer{line}
			if d.Kind == cdfChart {
				line.StepStyle = plotter.PostStep
			} else if len(s.X) <= maxMarkers {
				shown, thumbnails = append(shown, markers), append(thumbnails, markers)
			}
			if style.judged {
				below = append(below, shown...)
			} else {
				above = append(above, shown...)
			}
		}
		d.legend.Add(s.label(), thumbnails...)
	}
	d.plot.Add(append(below, above...)...)
	return nil
}

// segments are the points of a series that can be drawn, with a gap where nothing was measured.
func (d *drawing) segments(s series) []plotter.XYs {
	x, y := s.X, s.Y
	if d.Kind == cdfChart {
		x, y = cumulated(s.X)
	}
	var all []plotter.XYs
	connected := false
	for i := range min(len(x), len(y)) {
		drawable := x[i].Measured() && y[i].Measured() && (!d.X.Log || x[i] > 0) && (!d.Y.Log || y[i] > 0)
		if drawable && !connected {
			all = append(all, nil)
		}
		if connected = drawable; drawable {
			all[len(all)-1] = append(all[len(all)-1], plotter.XY{X: float64(x[i]), Y: d.y(y[i])})
		}
	}
	return all
}

// cumulated are the points of the distribution of values: the share of all values that are at most x. Requests without a
// time, since they were refused, count too, so the line of their gateway ends below 100 %.
func cumulated(values []Value) (x, y []Value) {
	for _, v := range values {
		if v.Measured() {
			x = append(x, v)
		}
	}
	slices.Sort(x)
	for i := range x {
		y = append(y, Value(float64(i+1)/float64(len(values))))
	}
	return x, y
}

// addBars draws the groups side by side, with a bar of each series in each and its value above it.
func (d *drawing) addBars() error {
	grid := faintGrid()
	grid.Vertical.Width = 0
	d.plot.Add(grid)
	groups := len(d.X.Names)
	for _, s := range d.Series {
		groups = max(groups, len(s.Y))
	}
	width := barsWidth / vg.Length(max(1, groups*len(d.Series)))
	for i, s := range d.Series {
		values := make(plotter.Values, max(1, len(s.Y)))
		labels := plotter.XYLabels{XYs: make(plotter.XYs, len(s.Y)), Labels: make([]string, len(s.Y))}
		for k, v := range s.Y {
			if v.Measured() {
				values[k] = d.y(v)
			}
			labels.XYs[k], labels.Labels[k] = plotter.XY{X: float64(k), Y: values[k]}, figure(v, d.Y.Unit)
		}
		bars, err := plotter.NewBarChart(values, 0.9*width)
		if err != nil {
			return err
		}
		bars.LineStyle.Width, bars.Color = 0, d.styleOf(s).colour
		bars.Offset = width * (vg.Length(i) - vg.Length(len(d.Series)-1)/2)
		names, err := plotter.NewLabels(labels)
		if err != nil {
			return err
		}
		for k := range names.TextStyle {
			names.TextStyle[k].Font, names.TextStyle[k].XAlign = sans(8), draw.XCenter
		}
		names.Offset = vg.Point{X: bars.Offset, Y: 2}
		d.plot.Add(bars, names)
		d.legend.Add(s.label(), bars)
	}
	d.plot.X.Min, d.plot.X.Max = -0.5, float64(groups)-0.5
	return nil
}

// addRefLines draws levels, which stand in the legend, and moments, whose names stand above the axes.
func (d *drawing) addRefLines() error {
	p, inLegend := d.plot, map[string]bool{}
	x, y := [2]float64{p.X.Min, p.X.Max}, [2]float64{p.Y.Min, p.Y.Max}
	for _, r := range d.RefLines {
		if !r.At.Measured() {
			continue
		}
		points := plotter.XYs{{X: x[0], Y: d.y(r.At)}, {X: x[1], Y: d.y(r.At)}}
		if r.Vertical {
			points = plotter.XYs{{X: float64(r.At), Y: y[0]}, {X: float64(r.At), Y: y[1]}}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{2, 2}}
		p.Add(line)
		if !r.Vertical {
			if !inLegend[r.Name] {
				d.legend.Add(r.Name, line)
			}
			inLegend[r.Name] = true
			continue
		}
		name, err := plotter.NewLabels(plotter.XYLabels{XYs: points[1:], Labels: []string{r.Name}})
		if err != nil {
			return err
		}
		name.TextStyle[0].Font, name.TextStyle[0].XAlign, name.Offset.Y = sans(9), draw.XCenter, 2
		p.Add(name)
	}
	return nil
}

// ticksAt are ticks at the measured points themselves.
func ticksAt(x []Value) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range x {
		if v.Measured() {
			ticks = append(ticks, newTick(float64(v)))
		}
	}
	return ticks
}

// newTick is a tick with a label of at most six digits.
func newTick(v float64) plot.Tick {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v+0, 'g', 6, 64), 64) // of what FormatFloat wrote; +0 makes -0 0
	return plot.Tick{Value: v, Label: strconv.FormatFloat(rounded, 'f', -1, 64)}
}

// linearTicks are four to ten round numbers.
func linearTicks(low, high float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 4))))
	for _, f := range []float64{5, 2} {
		if (high-low)/(f*step) >= 4 {
			step *= f
			break
		}
	}
	var ticks []plot.Tick
	for v := math.Ceil(low/step) * step; v <= high+step/1000; v += step {
		ticks = append(ticks, newTick(v))
	}
	return ticks
}

// logTicks labels 1, 2 and 5 times each power of ten.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Pow10(int(math.Floor(math.Log10(low)))); power <= high; power *= 10 {
		for _, f := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 9} {
			t := plot.Tick{Value: f * power}
			if f == 1 || f == 2 || f == 5 {
				t = newTick(t.Value)
			}
			if t.Value >= low && t.Value <= high {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}
