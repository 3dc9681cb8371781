"""vCenter's API, by pyVmomi: a session, the password that the keyring has, and things by name."""

import importlib
import importlib.util
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labkit.errors import LoginRefused, Unknown

ROLE = "vcenter"
PORT = 443
USER = "administrator@vsphere.local"


@contextmanager
def connected(
    address: str, user: str, password: str, *, port: int = PORT, authority: str = ""
) -> Iterator[Any]:
    """A session of vCenter's API, which ends with the block; `authority` is a file of its CA."""
    connect = importlib.import_module("pyVim.connect")
    trust = ssl.create_default_context(cafile=authority or None)
    try:
        session = connect.SmartConnect(
            host=address, port=port, user=user, pwd=password, sslContext=trust
        )
    except Exception as error:
        message = getattr(error, "msg", "") or str(error)
        hint = "keep the password with `keyring set labkit " + f"{user}@{address}`"
        raise LoginRefused(f"vCenter at {address} refused the login of {user}", said=message,
                           hint=hint) from None  # fmt: skip
    try:
        yield session
    finally:
        connect.Disconnect(session)


def kept_password(address: str) -> str:
    """The password of our user there."""
    login, password = f"{USER}@{address}", None
    if importlib.util.find_spec("keyring"):
        password = importlib.import_module("keyring").get_password("labkit", login)
    if password is None:
        raise LoginRefused(f"the keyring has no password of {login}",
                           hint=f"keep it with `keyring set labkit {login}`")  # fmt: skip
    return str(password)


def named(session: Any, kind: Any, name: str) -> Any:
    """A thing of a kind, such as `vim.HostSystem`, by its name."""
    content = session.RetrieveContent()
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], True)
    try:
        machines = {machine.name: machine for machine in view.view}
    finally:
        view.Destroy()
    if name not in machines:
        raise Unknown(f"{kind.__name__.rpartition('.')[2]} of vCenter", name, machines)
    return machines[name]
