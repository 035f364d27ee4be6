package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

const (
	// pingLimit bounds one ping with its repetitions, and at the end of the run all that are left.
	pingLimit = 5 * time.Second
	pingTries = 3
	pingPause = 500 * time.Millisecond
)

// pings tell a monitor by HTTP that the command has started, and with which status the run ended,
// in the form of healthchecks.io: URL/start and URL/STATUS. A skip is not told. They follow what
// they tell, and delay only the end of leaderrun.
type pings struct {
	*observe.Hooks
	url    *url.URL
	log    *slog.Logger
	client http.Client
	ctx    context.Context
	cancel context.CancelFunc
}

// newPings returns nil if no URL is set.
func newPings(c settings.Config, log *slog.Logger, status Status) *pings {
	address, err := url.Parse(c.Ping)
	if err != nil || c.Ping == "" { // settings checks it
		return nil
	}
	p := &pings{url: address, log: log, client: http.Client{CheckRedirect: withoutReferer}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Hooks = observe.NewHooks(p.call, func(observe.Hook) { p.failed(errors.New("too many wait")) }, func(s elect.State) int { return status(s, c) })
	return p
}

func (p *pings) call(hook observe.Hook) {
	switch hook.Event {
	case observe.HookAcquire:
		p.send("start")
	case observe.HookEnd:
		p.send(strconv.Itoa(hook.Status))
	}
}

// send sends one ping, and repeats it if it was not answered with 2xx.
func (p *pings) send(what string) {
	ctx, cancel := context.WithTimeout(p.ctx, pingLimit)
	defer cancel()
	for try := 1; ; try++ {
		err := p.try(ctx, p.url.JoinPath(what).String())
		if err == nil {
			return
		}
		if try == pingTries || ctx.Err() != nil {
			p.failed(err)
			return
		}
		select {
		case <-time.After(pingPause):
		case <-ctx.Done():
		}
	}
}

// withoutReferer keeps the URL, a secret, from the hosts to which a monitor redirects.
func withoutReferer(r *http.Request, before []*http.Request) error {
	const most = 10 // as without it
	if len(before) >= most {
		return errors.New("it redirects again and again")
	}
	r.Header.Del("Referer")
	return nil
}

func (p *pings) try(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	const most = 64 << 10
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, most)) // the connection can be used again
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return errors.New("it answers " + answer.Status)
	}
	return nil
}

// failed names the host only: the rest of the URL is a secret.
func (p *pings) failed(err error) {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errors.New("no answer in time")
	}
	p.log.Warn(fmt.Sprintf("the ping to %s failed: %v", p.url.Host, err), observe.EventHookFailed, observe.HintAttr,
		"the run itself is not affected; see that --ping is right and its host can be reached from here")
}

// Finish sends what is left, for pingLimit at most. A further order to stop ends that.
func (p *pings) Finish(signals <-chan campaign.Received) {
	await(p.End(), pingLimit, p.cancel, signals)
}
