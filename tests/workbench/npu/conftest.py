"""One thread for products: the programs are small, and other tests want the processor too."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    with threadpool_limits(limits=1, user_api="blas"):
        yield
