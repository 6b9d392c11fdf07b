package bench

import (
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The size of pictures: they are read at 900 pixels, and drawn with twice as many, so that they are sharp on every screen.
const (
	pictureWidth  = 900 * 0.75 // points: there are 96 pixels in 72
	pictureHeight = 500 * 0.75
	pictureDPI    = 192
)

// WritePNG draws a plot. The gateways are those of the report, in its order: they decide the colours.
func WritePNG(w io.Writer, p Plot, gateways []About) error {
	drawn, err := drawPlot(p, gateways, pictureDPI)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return encoder.Encode(w, fewColours(drawn))
}

func drawPlot(p Plot, gateways []About, dpi int) (image.Image, error) {
	if len(p.Series) == 0 {
		return nil, fmt.Errorf("cannot draw the plot %q: it has no series", p.Name)
	}
	pic := &picture{plot: p, looks: looksOf(gateways)}
	switch p.Kind {
	case Lines:
		pic.prepareLines()
	case CDF:
		pic.prepareCDF()
	case Bars:
		pic.prepareBars()
	default:
		return nil, fmt.Errorf("cannot draw the plot %q: its kind is %q, not lines, bars or cdf", p.Name, p.Kind)
	}
	canvas := vgimg.NewWith(vgimg.UseWH(pictureWidth, pictureHeight), vgimg.UseDPI(dpi))
	pic.draw(draw.New(canvas))
	return canvas.Image(), nil
}

// picture is a plot while it is drawn.
type picture struct {
	plot  Plot
	looks map[string]look
	x, y  scale
	paint func(c draw.Canvas, at place) // draws the series
	bars  bool
}

// place turns values into points of the canvas.
type place struct {
	x, y func(float64) vg.Length
}

// The margins around, and the room between what stands above each other.
const (
	margin  = 10.0
	between = 5.0
)

// draw puts title, legend and plot below each other, so that none lies over another.
func (p *picture) draw(c draw.Canvas) {
	c = draw.Crop(c, margin, -margin, margin, -margin)
	title := bold(writing(13, ink))
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y - title.Height(p.plot.Title)}, p.plot.Title)
	c.Max.Y -= title.Height(p.plot.Title) + 2*between
	c.Max.Y -= p.drawLegend(c) + 2*between
	small := writing(9, pale)
	for _, l := range p.plot.Lines {
		if l.Upright {
			c.Max.Y -= small.Height(l.Name) + between // their names stand above the plot
			break
		}
	}
	beside := 0.0
	for _, l := range p.plot.Lines {
		if !l.Upright {
			beside = max(beside, float64(small.Width(l.Name))+between) // and these to the right
		}
	}
	c.Max.X -= vg.Length(max(beside, 12)) // half a label of the x axis
	p.drawAxes(c)
}

// drawAxes draws the plot itself. The label of its y axis is put there by us, since gonum's plot takes room above a
// logarithmic axis for one that stands in its middle.
func (p *picture) drawAxes(c draw.Canvas) {
	label := writing(11, ink)
	label.XAlign, label.Rotation = draw.XCenter, math.Pi/2
	left := c.Min.X + writing(11, ink).Height("x")
	c.Min.X = left + between
	axes := p.axes()
	axes.Draw(c)
	data := axes.DataCanvas(c)
	c.FillText(label, vg.Point{X: left, Y: data.Center().Y}, axisLabel(p.plot.Y))
}

// axes is what gonum's plot draws.
func (p *picture) axes() *plot.Plot {
	axes := plot.New()
	axes.BackgroundColor = nil
	for _, a := range []struct {
		axis  *plot.Axis
		scale scale
	}{{&axes.X, p.x}, {&axes.Y, p.y}} {
		a.axis.Min, a.axis.Max = a.scale.min, a.scale.max
		if a.scale.log {
			a.axis.Scale = plot.LogScale{}
		}
		a.axis.Label.TextStyle = writing(11, ink)
		a.axis.Label.TextStyle.XAlign = draw.XCenter
		a.axis.Label.Padding = between
		aligned := a.axis.Tick.Label
		a.axis.Tick.Label = writing(10.5, ink)
		a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign = aligned.XAlign, aligned.YAlign
		a.axis.Tick.Marker = plot.ConstantTicks(a.scale.ticks)
		a.axis.Tick.LineStyle.Color, a.axis.LineStyle.Color = pale, pale
		a.axis.Tick.Length = 4
		a.axis.Padding = 0
	}
	axes.X.Label.Text = axisLabel(p.plot.X)
	axes.Y.LineStyle.Width, axes.Y.Tick.Length = 0, 0 // the grid shows where they are
	if p.bars {
		axes.X.Tick.Length = 0
	}
	axes.Add(p)
	return axes
}

func axisLabel(a Axis) string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// Plot draws what lies between the axes. It is what gonum's plot calls.
func (p *picture) Plot(c draw.Canvas, axes *plot.Plot) {
	x, y := axes.Transforms(&c)
	for _, t := range p.y.ticks {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: gridWidth(t)}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	for _, t := range p.x.ticks {
		if !p.bars {
			c.StrokeLine2(draw.LineStyle{Color: grid, Width: gridWidth(t)}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
	p.paint(c, place{x, y})
	p.drawLines(c, place{x, y})
	if p.bars {
		p.nameBars(c, place{x, y})
	}
}

func gridWidth(t plot.Tick) vg.Length {
	if t.Label == "" {
		return 0.3
	}
	return 0.75
}

// drawLines draws levels and moments over the series, and their names outside of the plot.
func (p *picture) drawLines(c draw.Canvas, at place) {
	style := draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{2, 2}}
	name := writing(9, pale)
	for _, l := range p.plot.Lines {
		v := float64(l.At)
		switch {
		case l.Upright && p.x.has(l.At) && v >= p.x.min && v <= p.x.max:
			c.StrokeLine2(style, at.x(v), c.Min.Y, at.x(v), c.Max.Y)
			left := min(max(at.x(v)-name.Width(l.Name)/2, c.Min.X), c.Max.X-name.Width(l.Name))
			c.FillText(name, vg.Point{X: left, Y: c.Max.Y + 2}, l.Name)
		case !l.Upright && p.y.has(l.At) && v >= p.y.min && v <= p.y.max:
			c.StrokeLine2(style, c.Min.X, at.y(v), c.Max.X, at.y(v))
			c.FillText(name, vg.Point{X: c.Max.X + between, Y: at.y(v) - name.Height(l.Name)/2}, l.Name)
		}
	}
}

// lookOf is how a series is drawn.
func (p *picture) lookOf(s Series) look {
	if l, ok := p.looks[s.Gateway]; ok {
		return l
	}
	return look{colour: pale, shape: draw.RingGlyph{}}
}

// label is how the legend calls a series.
func (s *Series) label() string {
	if strings.TrimSpace(s.Name) != "" {
		return s.Name
	}
	return s.Gateway
}

// all are the values of all series along one axis.
func (p *picture) all(of func(Series) []Value) []Value {
	var values []Value
	for _, s := range p.plot.Series {
		values = append(values, of(s)...)
	}
	return values
}

// levels are the values of lines that go through the plot.
func (p *picture) levels(upright bool) []Value {
	var values []Value
	for _, l := range p.plot.Lines {
		if l.Upright == upright {
			values = append(values, l.At)
		}
	}
	return values
}

func xs(s Series) []Value { return s.X }
func ys(s Series) []Value { return s.Y }

// inOrder are the series as they are drawn: a thick line comes first, so that it hides none of the others.
func (p *picture) inOrder() []Series {
	var weak, strong []Series
	for _, s := range p.plot.Series {
		if p.lookOf(s).strong {
			strong = append(strong, s)
		} else {
			weak = append(weak, s)
		}
	}
	return append(strong, weak...)
}
