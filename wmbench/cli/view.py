"""`wmbench view`"""

from __future__ import annotations

import click

from wmbench.cli.invocation import Invocation, global_options
from wmbench.cli.report import gathered, text_options


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port (default: any free one).")
@click.option("--open", "opens", is_flag=True, help="Open the page in your browser.")
@text_options
@global_options
@click.pass_obj
def view(
    invocation: Invocation,
    /,
    folders: tuple[str, ...],
    port: int,
    opens: bool,
    texts: int,
    evidence: bool,
    key: str | None,
) -> None:
    """Show the report of finished runs in a browser, served to this machine only; Ctrl-C stops it.

    Nothing is written. The page is at /, the other forms at /report.json, .csv, .tex and .md.
    """
    import webbrowser

    from wmbench.report.server import report_server

    document = gathered(folders, invocation.host if evidence else None, texts, key)
    with report_server(document, port) as server:
        click.echo(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C ends it)")
        if opens:
            webbrowser.open(f"http://127.0.0.1:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
