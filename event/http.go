package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// HTTPTimeout is how long one post may take, by default.
const HTTPTimeout = 5 * time.Second

// HTTPOptions are the options of [HTTP]. The zero value is good.
type HTTPOptions struct {
	Delivery
	// Header is sent with each post, such as Authorization. It is copied.
	Header http.Header
	// Timeout is how long one post may take; [HTTPTimeout], if 0.
	Timeout time.Duration
	// SpoolPath names a file on the host that gets, as a line, each record that
	// could not be posted; as in [File]. None, if empty.
	SpoolPath string
	// Transport carries the posts; if nil, one that the sink makes and closes.
	Transport http.RoundTripper
}

// HTTP is a sink that posts each record as JSON to the endpoint, one after
// another, by default in the background ([BestEffort], [Log]).
//
// An answer other than 2xx is a failure; redirects are not followed, since the
// headers may hold a secret that was meant for the endpoint. A failure is
// reported also where the record was spooled; its text holds no part of the URL.
func HTTP(endpoint string, o HTTPOptions) Sink {
	o.Header = o.Header.Clone()
	if o.Timeout == 0 {
		o.Timeout = HTTPTimeout
	}
	return httpSink{endpoint, o}
}

type httpSink struct {
	endpoint string
	o        HTTPOptions
}

func (h httpSink) Delivery() Delivery { return h.o.Delivery.or("http", BestEffort, Log) }

func (h httpSink) open(r *Recorder) ([]*outlet, error) {
	u, err := url.Parse(h.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, invalid("the endpoint of an HTTP event sink is not an http or https URL")
	}
	d := &httpDest{url: u, header: h.o.Header.Clone(), client: &http.Client{
		Transport:     h.o.Transport,
		Timeout:       h.o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if d.client.Transport == nil {
		d.own = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: time.Minute}
		d.client.Transport = d.own
	}
	if h.o.SpoolPath != "" {
		d.spool = &journal{path: h.o.SpoolPath}
	}
	return outletOf(r, h.Delivery(), d)
}

type httpDest struct {
	url    *url.URL
	header http.Header
	client *http.Client
	own    *http.Transport // nil if the transport is the caller's

	mu    sync.Mutex // held while spool is used
	spool *journal   // nil if there is none
}

func (d *httpDest) handle(ctx context.Context, r *Record) error {
	line := AppendLine(nil, r)
	err := d.post(ctx, bytes.TrimSuffix(line, []byte{'\n'}))
	if err == nil || d.spool == nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, spoolErr := d.spool.append(line)
	return errors.Join(err, spoolErr)
}

func (d *httpDest) post(ctx context.Context, body []byte) error {
	req := (&http.Request{
		Method:        http.MethodPost,
		URL:           d.url,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(body)), nil
		},
	}).WithContext(ctx)
	for k, v := range d.header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	resp, err := d.client.Do(req)
	if err != nil {
		// The *url.Error around it tells the URL, which may hold a token.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fmt.Errorf("post event: %w", err)
	}
	defer resp.Body.Close()
	// Read a short answer to its end, so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("post event: the server answered %d", resp.StatusCode)
	}
	return nil
}

func (d *httpDest) close(context.Context) error {
	if d.own != nil {
		d.own.CloseIdleConnections()
	}
	if d.spool == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spool.close()
}
